"""What is wrong with an image: its type or its data."""

from __future__ import annotations

import base64
import struct

from environments.display.images import image_problem, image_size
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


@each(
    ("content", "size"),
    [
        (PNG + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480), (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 20, 10), (20, 10)),
        (b"BM" + bytes(16) + struct.pack("<ii", 3, -2), (3, 2)),
        (JPEG + b"\0\4ab\xff\xc2\0\x11\x08" + struct.pack(">HH", 30, 40), (40, 30)),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 7, 5), (7, 5)),
        (b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + struct.pack("<I", 6 | 4 << 14), (7, 5)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\6\0\0\4\0\0", (7, 5)),
        (AVIF + b"ispe" + bytes(4) + struct.pack(">II", 9, 8), (9, 8)),
        (PNG + b"\0\0\0\rIHDR" + struct.pack(">II", 0, 480), None),
        (PNG, None),
        (JPEG, None),
        (AVIF, None),
        (b"no image", None),
    ],
)
def test_it_reads_the_size_from_the_beginning(content: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(base64.b64encode(content).decode()) == size
