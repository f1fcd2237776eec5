from django.apps import AppConfig


class EpisodesConfig(AppConfig):
    name = "episodes"
    verbose_name = "Episodes and runs"
    default_auto_field = "django.db.models.BigAutoField"
