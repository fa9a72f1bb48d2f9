"""Policies that lend idle GPUs as spot: high-priority jobs come first and may evict spot jobs."""
