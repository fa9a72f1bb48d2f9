"""Speedup functions s(k): parametric laws, measured tables and built-in profiles."""
