"""Serverless thresholds: many replays of one trace and what they recommend."""
