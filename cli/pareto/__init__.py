"""What ``gpuplan pareto`` takes and shows: its options, headline, warnings and tables."""
