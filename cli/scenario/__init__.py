"""Scenario files: a workload and its studies declared in TOML, checked, run and cached."""
