"""One purchase plan for a log: what to commit to, what to rent, and what runs where."""
