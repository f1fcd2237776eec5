from django.apps import AppConfig


class EpisodesConfig(AppConfig):
    name = "episodes"
    verbose_name = "What was played"
    default_auto_field = "django.db.models.BigAutoField"
