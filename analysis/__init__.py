"""Job logs and price histories: schema, errors, reading, statistics. Imports no simulator."""
