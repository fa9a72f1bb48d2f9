"""Allpass on a trace: one run, a sweep of thresholds, and the ski-rental bound beside it."""
