"""Time and peak memory of the command, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, os, sys, time
out = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
command = [sys.executable, "-m", "gpuplan.cli", *sys.argv[1:]]
began = time.perf_counter()
pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=out)
_, status, usage = os.wait4(pid, 0)
print(json.dumps([status, time.perf_counter() - began, usage.ru_maxrss]))
"""
"""A new process takes over the peak of the one that starts it, so a small one comes between: the
benchmark itself may have held a whole trace."""

RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def measured(*arguments: str) -> tuple[float, float]:
    """Run ``gpuplan`` with its output thrown away; returns seconds and peak memory in MB."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], check=True, stdout=subprocess.PIPE
    )
    status, seconds, peak = json.loads(done.stdout)
    if status:
        raise RuntimeError(f"gpuplan {arguments[0]} failed")
    return seconds, peak * RSS_UNIT / 1e6
