"""Conditions on results that decide the exit code."""
