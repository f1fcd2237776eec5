from django.apps import AppConfig
from django.utils.module_loading import import_string

from environments.curation.quotations import register_quotation
from environments.features import features


class EpisodesConfig(AppConfig):
    name = "episodes"
    verbose_name = "Episodes and runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        for feature in features():
            if feature.quotation:
                register_quotation(import_string(feature.quotation))
