"""Heavy-tailed models of durations and gaps: fitted, compared, and the best one chosen."""
