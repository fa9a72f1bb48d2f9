"""Ways to choose widths within a budget, the exact one and those it is compared with."""
