"""The price formats: one file each, listed in `registry`."""
