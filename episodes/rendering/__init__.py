"""Texts that environments and agents wrote, as HTML that is safe to show. Each module renders one
kind of text.

Nothing here trusts its input: markup is escaped, nothing is loaded from another host, inline styles
are removed (pages allow only classes), and characters that would hide or reorder others are made
visible.
"""
