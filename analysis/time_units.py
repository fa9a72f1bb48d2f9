"""Lengths of time."""

HOUR_S = 3600.0
DAY_S = 86400.0
CENTURY_S = 100 * 365.25 * DAY_S
