"""GPU prices: histories brought into one table, what they say, and what a trace costs by them."""
