"""GPU prices: reading histories into one table, statistics, and the cost of a trace."""
