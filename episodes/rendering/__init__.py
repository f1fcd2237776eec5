"""Rendering: texts that environments and agents wrote, as HTML that is safe to show. One module a kind of text.

Nothing here trusts what it reads: markup is escaped, no address of another host is loaded, no style is taken over, and
characters that would hide or reorder others are written out. Classes only, for pages allow no inline style.
"""
