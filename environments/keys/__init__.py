"""API keys: what each may do, and which are in force.

A key is 256 random bits, so its SHA-256 is as hard to reverse as the key is to guess, and a slow
password hash would only make every request of an agent slower.
"""
