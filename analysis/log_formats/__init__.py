"""The job-log formats: one file each, listed in `registry`."""
