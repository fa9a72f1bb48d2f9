"""Schedulers of a cluster of several GPU types, decided in rounds; one file per policy."""
