"""``python -m gpuplan.cli`` is the same as ``gpuplan``."""

from gpuplan.cli.app.console import run

if __name__ == "__main__":
    run()
