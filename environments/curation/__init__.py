"""Curation: what people decide about tasks, splits and environments. Driven by the admin's pages and by commands.

One object per change, an `Action`: `plan()` tells what it will touch, `apply()` does it, leaves revisions behind and
makes it visible at once. No request and no HTML; every refusal is a `Refused` whose text can be shown.
"""
