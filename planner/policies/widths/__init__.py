"""Policies that give every job one width for all its life; one file each."""
