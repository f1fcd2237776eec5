"""Invisible and reordering characters as visible ones, for pages, terminals and logs.

Such characters make a reader see something else than what is there: bidirectional controls reorder
a line, tags and variation selectors carry text that only a model reads, and escape sequences
repaint a terminal. Emoji sequences and the joiners and selectors of scripts stay, one at a time and
only where they have an effect.

Source: Unicode 16, Default_Ignorable_Code_Point (DerivedCoreProperties.txt) and
emoji-sequences.txt.
"""

from __future__ import annotations

import re

from environments.invisible import IGNORABLE

_NAMES = {
    0x00AD: "SHY",
    0x034F: "CGJ",
    0x061C: "ALM",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x2028: "LS",
    0x2029: "PS",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0xFE0E: "VS15",
    0xFE0F: "VS16",
    0xFEFF: "BOM",
}
_HIDDEN = f"\x00-\x08\x0b-\x1f\x7f-\x9f{IGNORABLE}\u2028\u2029\u2800\ud800-\udfff\ufff9-\ufffb\U00016fe4\U0001d159"
"""Also controls but tab and line feed, separators of lines, blank letters, and halves of pairs."""
_EMOJI = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = (
    "\u0600-\u0dff\u0f00-\u109f\u1700-\u18af\u1900-\u1c4f\ua800-\ua8ff\ua980-\uaaff\uabc0-\uabff\ufb50-\ufdff"
    "\ufe70-\ufefc\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f"
)
"""Scripts whose letters join: Arabic, Syriac, those of India and South East Asia, Mongolian,
Adlam."""
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_RUN = re.compile(f"[{_HIDDEN}\u2800-\u28ff\U0001f3f4]+")
"""Hidden characters, Braille and black flags. One set of characters: `re` looks for that thirty
times as fast."""
_PIECE = re.compile(
    rf"(?P<kept>(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f)\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    r"|\U0001f3f4(?:\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    r"|\U000e0077\U000e006c\U000e0073)\U000e007f)?"  # the flags of England, Scotland and Wales
    rf"|(?<=[{_JOINING}])[\u200c\u200d](?![\u200c\u200d])|(?<![\u200c\u200d])[\u200c\u200d](?=[{_JOINING}])"
    rf"|(?<=[\u1820-\u18aa])[\u180b-\u180f]|(?<=[\u0591-\u05ea])\u034f"
    rf"|(?<=[{_HAN}])[\ufe00-\ufe02\U000e0100-\U000e01ef]|(?<=[\u2205-\u22ff])\ufe00)"
    rf"|(?P<braille>[\u2800-\u28ff]+)|[{_HIDDEN}]"
)


def visible(text: str) -> str:
    """Return `text` with hidden characters as symbols (␛) or names (⟦RLO⟧), and with `\\n` for `\\r\\n`."""
    return _RUN.sub(_mark_run, text.replace("\r\n", "\n"))


_MARKUP = re.compile(
    r"<(?:(script|style|textarea)\b.*?</\1\s*>|[a-z/!][^>]*>)", re.DOTALL | re.IGNORECASE
)
"""A tag, or an element whose content is no text of the page."""
_SPOKEN = re.compile(r'(?<=\s)(?:title|aria-label|alt)="[^"]*"')
"""Attributes that people read or hear."""


def visible_html(page: str) -> str:
    """Return HTML with marks in its texts. Links and the values of form controls are sent back, so
    they stay."""
    if visible(page) == page:  # nearly always, and a hundredth of the time of what follows
        return page
    pieces, end = [], 0
    for markup in _MARKUP.finditer(page):
        pieces.append(visible(page[end : markup.start()]))
        pieces.append(_SPOKEN.sub(lambda spoken: visible(spoken[0]), markup[0]))
        end = markup.end()
    return "".join([*pieces, visible(page[end:])])


def _mark_run(run: re.Match[str]) -> str:
    pieces, place = [], run.start()
    while place < run.end():
        piece = _PIECE.match(run.string, place)
        assert piece  # its alternatives begin with every character of a run
        pieces.append(_mark_piece(piece))
        place = piece.end()
    return "".join(pieces)


def _mark_piece(piece: re.Match[str]) -> str:
    if piece["kept"]:
        return piece[0]
    if piece["braille"]:  # drawings in terminals have blank cells between others
        return piece[0] if piece[0].strip("\u2800") else "⟦U+2800⟧" * len(piece[0])
    code = ord(piece[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return f"⟦{_NAMES.get(code, f'U+{code:04X}')}⟧"
