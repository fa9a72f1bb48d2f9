"""Elastic."""
