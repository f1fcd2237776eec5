"""Addresses of pages and of JSON."""
