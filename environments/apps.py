from django.apps import AppConfig
from django.urls import register_converter
from django.urls.converters import IntConverter

from environments.database.storable import MAX_BIGINT


class IdConverter(IntConverter):
    """`<id:pk>` in an address: a number that a column of 64 bits holds. A larger one is no page's
    address."""

    def to_python(self, value: str) -> int:
        number = super().to_python(value)
        if number > MAX_BIGINT:
            raise ValueError(value)
        return number


class EnvironmentsConfig(AppConfig):
    name = "environments"
    verbose_name = "Environments and tasks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register_converter(IdConverter, "id")  # before any module of addresses is imported
