"""Lengths of time in seconds, hours and microseconds; those of `gpuplan.simkit.time` are floats."""

HOUR_S = 3600
DAY_S = 86_400
CENTURY_S = 100 * 365.25 * DAY_S
MONTH_H = 730.5

MICROS = 1_000_000
HOUR_US = HOUR_S * MICROS
DAY_US = DAY_S * MICROS
