"""A site's own files: its log with the scheduler's fields, and its Slurm settings."""
