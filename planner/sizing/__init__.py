"""How many GPUs a workload needs, and how many to commit to."""
