"""Invisible and reordering characters as visible ones; applied to every text before it is rendered.

Such characters make a reader see something else than what is there: bidirectional controls reorder a line, tag
characters carry text that only a model reads, and escape sequences repaint a terminal.
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
"""All control and format characters except tab, line feed and joiners, which scripts and emoji need."""


def visible(text: str) -> str:
    """Return `text` with hidden characters as symbols (␛) or names (⟦RLO⟧), and with `\\n` for `\\r\\n`."""
    text = text.replace("\r\n", "\n")
    return _HIDDEN.sub(_symbol, text)


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return f"⟦{_NAMES.get(code, f'U+{code:04X}')}⟧"
