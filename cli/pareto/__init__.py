"""Options, tables and text of ``gpuplan pareto``."""
