"""Playtest: the pages and the socket by which people play environments, as sessions of the one
service."""
