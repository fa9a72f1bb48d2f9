"""Quota schedulers of Kubernetes: the rules of Kueue and of KAI for whole GPUs."""
