"""Characters that hide, reorder or steer, written so that a reader sees them; before a text is rendered as anything.

A line that reads one way and is another is the oldest trick in a transcript: bidirectional controls turn it around,
tag characters smuggle text that only a model reads, escapes repaint a terminal.
"""

from __future__ import annotations

import re

_NAMES = {
    **{0x061C: "ALM", 0x200B: "ZWSP", 0x200E: "LRM", 0x200F: "RLM", 0x2028: "LS", 0x2029: "PS", 0xFEFF: "BOM"},
    **{0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO"},
    **{0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0x00AD: "SHY"},
}
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Everything but tab and line feed; joiners stay, for they belong to scripts and emoji."""


def visible(text: str) -> str:
    """`text` with such characters as pictures (␛) or names (⟦RLO⟧), and line ends as line feeds."""
    text = text.replace("\r\n", "\n")
    return _HIDDEN.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return f"⟦{_NAMES.get(code, f'U+{code:04X}')}⟧"
