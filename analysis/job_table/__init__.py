"""The table of jobs: its columns, their rules, and what may be chosen among its rows."""
