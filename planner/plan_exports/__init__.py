"""A plan as files for those who put it into effect: Slurm, Kueue, or a table per class."""
