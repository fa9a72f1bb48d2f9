"""What the next months will cost: models of spend, their past errors, and an interval."""
