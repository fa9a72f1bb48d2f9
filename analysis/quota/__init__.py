"""Quotas on Kubernetes as Kueue and KAI describe them: objects, their schema, and workloads."""
