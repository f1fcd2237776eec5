from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "environments"
    verbose_name = "What can be played"
    default_auto_field = "django.db.models.BigAutoField"
