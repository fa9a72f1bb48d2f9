"""The entry point ``gpuplan``: it answers Ctrl-C while the rest is still being imported."""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130


def run() -> None:
    """Run the command line; `gpuplan.cli.main` answers signals once it is there."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else the caller wants interrupts ignored
        signal.signal(signal.SIGINT, _leave)
    from gpuplan.cli.main import run as run_main

    signal.signal(signal.SIGINT, usual)
    run_main()


def _leave(number: int, frame: object) -> None:
    """Leave at once: nothing has been opened or begun, and an import cannot be left in order."""
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)
