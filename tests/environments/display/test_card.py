"""Cards: where they are found, and what of them a page shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from environments.authoring.declarations import MAX_CARD_BYTES, card_of
from environments.builtin.guess import Guess
from environments.display.card import plain, rendered
from tests.rows import each

Author = Callable[[str], type]


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    """Imports a class of a file below the test's directory."""
    monkeypatch.syspath_prepend(tmp_path)

    def class_in(name: str) -> type:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("class Shop: pass")
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        monkeypatch.delitem(sys.modules, module, raising=False)
        return __import__(module, fromlist=["Shop"]).Shop  # type: ignore[no-any-return]

    return class_in


@pytest.mark.parametrize(
    ("module", "card"),
    [
        ("cardshop.py", "cardshop.md"),
        ("cardshop2.py", "README.md"),
        ("cardshop3/__init__.py", "cardshop3/README.md"),
        ("cardshop4/__init__.py", "cardshop4/cardshop4.md"),
    ],
)
def test_it_is_found_next_to_the_class(
    author: Author, tmp_path: Path, module: str, card: str
) -> None:
    cls = author(module)
    (tmp_path / card).write_text("# Shop\n")
    assert card_of(cls) == "# Shop"


def test_the_modules_own_goes_before_the_directorys(author: Author, tmp_path: Path) -> None:
    cls = author("cardshop5.py")
    (tmp_path / "README.md").write_text("all shops")
    (tmp_path / "cardshop5.md").write_text("this shop")
    assert card_of(cls) == "this shop"


def test_a_class_without_a_file_has_none() -> None:
    assert card_of(int) == ""


def test_this_servers_readme_is_nobodys_card(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[Guess.__module__]
    monkeypatch.setattr(
        module, "__file__", str(Path(__file__).resolve().parents[3] / "guess_here.py")
    )
    assert card_of(Guess) == ""


def test_a_huge_one_is_cut_and_odd_bytes_are_marked(author: Author, tmp_path: Path) -> None:
    cls = author("cardshop6.py")
    (tmp_path / "cardshop6.md").write_bytes(b"\xff\0" + b"x" * 2 * MAX_CARD_BYTES)
    card = card_of(cls)
    assert len(card) < MAX_CARD_BYTES and card.startswith("\ufffdx")


def test_a_heading_that_only_repeats_the_page_s_title_is_left_out() -> None:
    assert rendered("# Shop\n\nBuy.", title="shop") == "<p>Buy.</p>\n"
    assert rendered("# The shop\n\nBuy.", title="shop").startswith("<h3>The shop</h3>")


def test_it_is_rendered_below_the_pages_own_headings() -> None:
    assert rendered("# Shop\n\n- *buy*\n- `sell`") == (
        "<h3>Shop</h3>\n<ul>\n<li><em>buy</em></li>\n<li><code>sell</code></li>\n</ul>\n"
    )


def test_tables_are_tables() -> None:
    assert "<td>1</td>" in rendered("| n |\n|---|\n| 1 |")


@each(
    ("markdown", "html"),
    [
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        (
            "[x](https://example.org)",
            '<p><a href="https://example.org" rel="noopener noreferrer nofollow">x</a></p>\n',
        ),
        ("[guide](docs/guide.md)", '<p><a rel="noopener noreferrer nofollow">guide</a></p>\n'),
        (
            "![shop](https://example.org/a.png)",
            '<p><a href="https://example.org/a.png" rel="noopener noreferrer '
            'nofollow">shop</a></p>\n',
        ),
        ("![](a.png)", '<p><a rel="noopener noreferrer nofollow">a.png</a></p>\n'),
        (
            "![dot](data:image/png;base64,AA==)",
            '<p><img src="data:image/png;base64,AA==" alt="dot"></p>\n',
        ),
        ("[x](data:image/png;base64,AA==)", '<p><a rel="noopener noreferrer nofollow">x</a></p>\n'),
        ('![<b>](https://example.org/"a)', None),
    ],
)
def test_nothing_in_it_is_active_or_fetched(markdown: str, html: str | None) -> None:
    shown = rendered(markdown)
    assert html is None or shown == html
    assert "<script" not in shown and 'src="http' not in shown and "<b>" not in shown


@each(
    ("markdown", "words"),
    [
        (
            "# Shop\n\nBuy **two** of `three`\nthings: [how](https://example.org).",
            "Buy two of three things: how.",
        ),
        ("# Shop\n* a <b>green</b> one\n* another", "a <b>green</b> one"),
        ("![a plan](x.png)\n\nBuy.", "a plan"),
        *(("# Shop", "Shop"), ("", "")),
    ],
)
def test_a_list_shows_the_first_words_of_a_card(markdown: str, words: str) -> None:
    assert plain(markdown) == words
