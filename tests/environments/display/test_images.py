"""What is wrong with an image: its type or its data."""

from __future__ import annotations

import base64

from environments.display.images import image_problem
from tests.rows import each

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff\xe0"
HEIC = b"\0\0\0\x18ftypheic"
AVIF = b"\0\0\0\x20ftypmif1\0\0\0\0mif1avifmiaf"
TYPES = "image/png, image/jpeg, image/gif or image/webp"


@each(
    ("kind", "data", "problem"),
    [
        ("image/png", PNG, ""),
        ("image/webp", b"RIFF\0\0\0\0WEBP", ""),
        ("image/webp", b"RIFF\0\0\0\0WAVE", "the data is no image, but the type is image/webp"),
        ("image/png", JPEG, "the data is image/jpeg, but the type is image/png"),
        ("image/png", b"", "the data is empty"),
        ("", PNG, f"the type is missing; use {TYPES}"),
        ("image/jpg", JPEG, "the type 'image/jpg' is not allowed; use image/jpeg"),
        ("image/jpg", PNG, "the type 'image/jpg' is not allowed; use image/png"),
        (
            "image/png; charset=binary",
            PNG,
            "the type 'image/png; charset=binary' is not allowed; use image/png",
        ),
        ("IMAGE/PNG", PNG, "the type 'IMAGE/PNG' is not allowed; use image/png"),
        ("image/tiff", b"II*\0", f"the type 'image/tiff' is not allowed; use {TYPES}"),
        ("image/heic", HEIC, f"the type 'image/heic' is not allowed; use {TYPES}"),
        ("image/png", AVIF, "the data is image/avif, but the type is image/png"),
        ("image/jpeg", HEIC, "the data is image/heic, but the type is image/jpeg"),
    ],
)
def test_it_says_which_of_type_and_data_is_wrong(kind: str, data: bytes, problem: str) -> None:
    assert image_problem(kind, base64.b64encode(data).decode()) == problem


@each("data", ["A", "a b=", "data:image/png;base64,AAAA", "-_-_", 7, None])
def test_other_data_is_never_an_image(data: object) -> None:
    assert image_problem("image/png", data)
