"""Terminal output: colours by class, no other effect."""

from __future__ import annotations

from episodes.rendering.ansi import ansi
from tests.rows import each


@each(
    ("text", "html"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-red">red</span> plain'),
        (
            "\x1b[1;4;92mgood\x1b[22;24m",
            '<span class="ansi-bold ansi-underline ansi-green">good</span>',
        ),
        ("\x1b[41mx\x1b[49my", '<span class="ansi-on-red">x</span>y'),
        ("\x1b[38;5;196mx", '<span class="ansi-red">x</span>'),
        ("\x1b[38;2;10;20;250mx", '<span class="ansi-blue">x</span>'),
        ("\x1b[48;5;16mx", '<span class="ansi-on-black">x</span>'),
        ("\x1b[mx\x1b[38mz\x1b[38;5my", "xzy"),
    ],
)
def test_it_follows_colours_and_weights(text: str, html: str) -> None:
    assert ansi(text) == html


@each(
    "text",
    [
        "\x1b[2Jx",
        "\x1b[10;10Hx",
        "\x1b]0;title\x07x",
        "\x1b]8;;http://evil.example\x1b\\x",
        "\x1bcx",
        "\x1b[?25lx",
    ],
)
def test_every_other_sequence_has_no_effect(text: str) -> None:
    assert ansi(text) == "x"


def test_a_progress_bar_is_seen_as_it_ended() -> None:
    assert ansi("10%\r100%\ndone\r\n") == "100%\ndone\n"


def test_what_is_no_sequence_is_shown() -> None:
    assert ansi("\x1b[31 <b>\u202e") == "␛[31 &lt;b&gt;⟦RLO⟧"
