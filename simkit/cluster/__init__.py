"""The simulator of one queue on one cluster."""
