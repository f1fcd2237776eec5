"""The dashboard: pages about what was played. A module a page; what they show comes from the layer below."""
