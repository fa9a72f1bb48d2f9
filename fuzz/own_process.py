"""Run the command line in a process of its own, and stop it with a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fuzz.in_process import Outcome

PROGRAM = """
import os, sys
from gpuplan.cli.app.console import run
os.write({ready}, b".")
os.close({ready})
sys.argv = ["gpuplan", *sys.argv[1:]]
run()
"""
LONGEST_S = 120.0
HANGS = -1_000
"""The exit code of a process that had to be killed for taking too long."""


def run_outside(
    arguments: list[str], folder: Path, name: str = "", delay_s: float = 0.0
) -> Outcome:
    """Run a command line; send it the signal ``name``, where there is one, after a delay.

    The delay starts once Python itself has started, which answers signals in its own way.
    """
    reads, writes = os.pipe()
    program = PROGRAM.format(ready=writes)
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writes],
    )
    os.close(writes)
    try:
        os.read(reads, 1)
        if name:
            time.sleep(delay_s)
            process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=LONGEST_S)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        code = HANGS
    finally:
        os.close(reads)
    return Outcome(code, out, err, 0.0)
