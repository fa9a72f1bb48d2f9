"""Elastic policies that share a cluster anew in every round."""
