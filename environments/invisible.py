"""Characters that nobody sees: Default_Ignorable_Code_Point of Unicode 16
(DerivedCoreProperties.txt).

Pages show marks for them; searches and comparisons of texts leave them out.
"""

from __future__ import annotations

import re

IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""All of them, for a set in a pattern."""
IGNORABLE_IN_JSON = (
    rf"[{IGNORABLE}]|\\u(00ad|034f|061c|115f|1160|17b[45]|180[b-f]|200[b-f]|202[a-e]|206[0-9a-f]|3164|fe0[0-9a-f]"
    r"|feff|ffa0|fff[0-8]|d82f\\udca[0-3]|d834\\udd7[3-9a]|db4[0-3])"
)
"""Pattern, whatever the case, of JSON texts that have one of them. It may find others, such as an
escaped backslash."""
_INVISIBLE = re.compile(f"[{IGNORABLE}]+")


def without_invisible(text: str) -> str:
    return text if text.isascii() else _INVISIBLE.sub("", text)
