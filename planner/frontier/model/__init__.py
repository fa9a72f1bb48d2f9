"""Job classes, their choices of width, and the exact frontier."""
