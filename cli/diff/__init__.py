"""Compare two JSON outputs: their requests, their results, and gates on the changes."""
