"""The joint replay of a purchase plan: a pool, leases above it, spot GPUs and containers."""
