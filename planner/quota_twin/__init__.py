"""The twin of a site of Kueue: its rules against a dump of workloads, and changes of it."""
