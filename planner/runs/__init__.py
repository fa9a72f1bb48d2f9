"""What every replay has: jobs, deadlines, settings, results, time lines."""
