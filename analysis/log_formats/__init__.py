"""Log formats."""
