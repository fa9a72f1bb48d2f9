"""Calibration of a site's rules on its own log, and what-if replays."""
