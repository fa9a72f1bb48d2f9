"""What a site tells about itself: its log with the scheduler's fields, and its Slurm settings."""
