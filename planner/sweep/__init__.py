"""Serverless thresholds: many replays of one trace and a recommendation from them."""
