"""What completion time does each GPU budget buy (BOA)."""
