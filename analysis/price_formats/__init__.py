"""Price formats."""
