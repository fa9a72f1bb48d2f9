"""Other ways to make a plan: the paper's calculator and a convex program."""
