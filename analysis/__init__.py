"""What a log and a price history say: schema, errors, reading, statistics. Knows no simulator."""
