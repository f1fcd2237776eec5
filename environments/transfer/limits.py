"""How much a page takes: asked before anything of an upload is read."""

from __future__ import annotations

from environments import conf
from environments.transfer.rows import TransferError


def check_upload_size(name: str, size_bytes: int) -> None:
    """`size_bytes`: as the request declares it, or so far. Raises: TransferError."""
    most = conf.max_upload_bytes()
    if size_bytes > most:
        raise TransferError(
            f"{name} has {_size(size_bytes)}, and a page takes {_size(most)}; use manage.py import_tasks, which has no "
            "limit, or raise ORSWEB_MAX_UPLOAD_BYTES."
        )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:,.0f} MiB" if size_bytes >= 1024**2 else f"{size_bytes:,} bytes"
