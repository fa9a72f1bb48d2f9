"""The simulator of fixed-width plans on rented nodes (BOA)."""
