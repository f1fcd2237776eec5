from django.apps import AppConfig

from environments.curation.quotations import register_quotation


class EpisodesConfig(AppConfig):
    name = "episodes"
    verbose_name = "Episodes and runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from episodes.suites.versions import quoted_in  # has models

        register_quotation(quoted_in)
