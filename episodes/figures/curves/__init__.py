"""Curves: return, success and length over episodes, time or training steps."""
