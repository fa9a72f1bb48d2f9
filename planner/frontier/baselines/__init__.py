"""Policies that plans are compared with."""
