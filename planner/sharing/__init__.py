"""Shared GPUs for services and training (Dilu): profiles, placement, co-scaling."""
