"""Policies that share a cluster anew in every round; one file each."""
