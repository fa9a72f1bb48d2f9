"""Bring any supported job log into the canonical schema."""
