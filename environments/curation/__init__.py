"""Curation: what people decide about tasks, splits and environments. Driven by the admin's pages
and by commands.

Each change is an object, an `Action`: `plan()` says what it will touch, `apply()` does it, writes
revisions and makes it visible at once. No request and no HTML; every refusal is an `ActionRefused`
whose text can be shown.
"""
