"""What rendered HTML may still hold after it was cleaned."""

from __future__ import annotations

import pytest

from environments.display.sanitizer import clean_prose, clean_prose_with_pictures
from tests.rows import each


@each("scheme", ["data:", "DATA:", " data:", "\x01Data:", "da\tta:", "d\na\rta:"])
def test_a_link_never_leads_to_data(scheme: str) -> None:
    markup = f'<a href="{scheme}text/html,<b>">x</a>'
    assert "href" not in clean_prose(markup)
    assert "href" not in clean_prose_with_pictures(markup)


@each("address", ["https://a.example/x.png", "//a.example/x.png", "/x.png", "javascript:data:"])
def test_an_image_is_never_fetched(address: str) -> None:
    assert "src" not in clean_prose_with_pictures(f'<img src="{address}">')


def test_an_image_in_the_text_is_kept() -> None:
    assert 'src="data:image/png;base64,AA"' in clean_prose_with_pictures(
        '<img src="data:image/png;base64,AA">'
    )


@pytest.mark.parametrize(
    "address", ["https://a.example/", "http://a.example/", "mailto:a@a.example"]
)
def test_a_link_to_another_host_or_a_mailbox_is_kept(address: str) -> None:
    markup = f'<a href="{address}">x</a>'
    assert f'href="{address}"' in clean_prose(markup)
    assert f'href="{address}"' in clean_prose_with_pictures(markup)
