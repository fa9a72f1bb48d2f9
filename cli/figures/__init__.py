"""The pictures, one family: see `gpuplan.cli.figures.style`."""
