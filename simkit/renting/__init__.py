"""Renting."""
