"""Policies that give every job one width for all its life."""
