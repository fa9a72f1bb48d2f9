"""Plans replayed on the jobs of their trace."""
