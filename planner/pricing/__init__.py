"""From price tables to the prices a replay pays."""
