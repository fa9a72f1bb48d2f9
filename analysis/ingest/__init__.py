"""Bring job logs into one canonical trace."""
