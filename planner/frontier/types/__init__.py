"""Plans over several GPU types, in dollars."""
