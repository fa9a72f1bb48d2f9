"""Renting GPUs: the market, the pool of workers, and the only bill."""
