"""A trace as commands read it."""
