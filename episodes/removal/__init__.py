"""Removing episodes, and what follows from it: what is derived from them, their blobs, and
retention periods."""
