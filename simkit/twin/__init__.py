"""A Slurm-like cluster: partitions, priorities, limits and backfill, in whole seconds."""
