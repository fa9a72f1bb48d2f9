"""Worker processes: each runs one case after the other, and is replaced where a case ends it."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz.privileges import Rights
from fuzz.run import Result
from gpuplan.cli.app.console import THREADS

ROOT = Path(__file__).resolve().parents[1]
MOST_CPU_S = 10.0
MOST_S = 240.0
"""A case is a hang that takes more processor time, or passes more time without taking any."""
CASES_PER_WORKER = 8_000
DISK = "256k"


class Worker:
    """One process with a folder and a small disk, and without rights to anything else."""

    def __init__(self, number: int, base: Path, kernels: Path, rights: Rights) -> None:
        """Start the process; it is ready once `wait` returns."""
        self.number, self.base, self.kernels, self.rights = number, base, kernels, rights
        self.base.mkdir(parents=True, exist_ok=True)
        self.disk = rights.small_disk(base / "disk", DISK)
        self.log = base / "log.txt"
        rights.give(self.base)
        self.cases = 0
        self._start()

    def _start(self) -> None:
        for name in ("home", "cache", "tmp"):
            (self.base / name).mkdir(exist_ok=True)
            self.rights.give(self.base / name)
        environment = {
            **{name: text for name, text in os.environ.items() if name in ("PATH", "LANG")},
            "HOME": str(self.base / "home"),
            "XDG_CACHE_HOME": str(self.base / "cache"),
            "MPLCONFIGDIR": str(self.kernels.parent / "matplotlib"),
            "TMPDIR": str(self.base / "tmp"),
            "NUMBA_CACHE_DIR": str(self.kernels),
            "POLARS_MAX_THREADS": "2",
            **dict.fromkeys(THREADS, "1"),  # as the command line sets them
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *self.rights.prefix,
                    *(sys.executable, "-m", "fuzz.worker", str(self.base), str(self.disk or "")),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
            )
        self.cases = 0
        self.ready = False

    def wait(self) -> None:
        """Wait until it is ready. Raises RuntimeError if it does not start."""
        line = self._line(3_600.0, 3_600.0)
        if line != "ready\n":
            raise RuntimeError(f"a worker does not start: {self.said()}")
        self.ready = True

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request; a ``code`` alone where there was none."""
        if self.cases >= CASES_PER_WORKER or self.process.poll() is not None:
            self.stop()
            self._start()
        if not self.ready:
            self.wait()
        self.cases += 1
        assert self.process.stdin is not None
        self.process.stdin.write(
            json.dumps({"keep": None, "save": False, **request}).encode() + b"\n"
        )
        self.process.stdin.flush()
        line = self._line(MOST_CPU_S, MOST_S)
        if line is None:
            self.stop()
            return {"code": "hang", "how": f"over {MOST_CPU_S:g} s of processor time, or stuck"}
        if not line:
            code = self.process.wait()
            return {"code": f"died {code}", "how": self.said()}
        answer: dict[str, Any] = json.loads(line)
        if "bug" in answer:
            raise RuntimeError(answer["bug"])
        return answer

    def said(self) -> str:
        """Return the end of what the process wrote to standard error."""
        return self.log.read_bytes()[-600:].decode(errors="replace")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the process and remove its folder."""
        self.stop()
        self.rights.no_disk(self.disk)
        shutil.rmtree(self.base, ignore_errors=True)

    def _line(self, cpu_s: float, wall_s: float) -> str | None:
        """Return the next line; empty where the process has ended, None where it takes too long."""
        assert self.process.stdout is not None
        began, used = time.monotonic(), self._cpu_s()
        while True:
            readable, _, _ = select.select([self.process.stdout], [], [], 0.5)
            if readable:
                return self.process.stdout.readline().decode()
            took = self._cpu_s() - used
            passed = time.monotonic() - began
            if took > cpu_s or passed > wall_s or (passed > 20 and took < 0.01 and wall_s == MOST_S
                                                   and not self._has_children()):  # fmt: skip
                return None

    def _cpu_s(self) -> float:
        """Return the processor time of the process; elapsed time if that is unknown."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")

    def _has_children(self) -> bool:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        try:
            return any(task.read_text().strip() for task in tasks)
        except OSError:
            return False


def run_all(
    numbers: Iterator[int],
    *,
    seed: int,
    kind: str,
    workers: list[Worker],
    on_result: Callable[[Result], None],
) -> None:
    """Run cases on all workers; ``on_result`` gets each result, in one thread at a time."""
    lock = threading.Lock()
    problems: list[BaseException] = []

    def work(worker: Worker) -> None:
        try:
            while not problems:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                result = result_of(worker, seed, number, None, kind)
                with lock:
                    on_result(result)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def result_of(worker: Worker, seed: int, number: int, keep: list[int] | None, kind: str) -> Result:
    """Return the result of a case; a hang or a death counts where it happens twice."""
    request = {"seed": seed, "number": number, "keep": keep, "kind": kind}
    answer = worker.ask(**request)
    if "kind" not in answer:
        answer = worker.ask(**request)
    if "kind" in answer:
        return Result(**answer)
    result = Result(**json.loads((worker.base / "now.json").read_text(encoding="utf-8")))
    code, how = answer["code"], answer["how"]
    last = how.strip().splitlines()[-1:] if code.startswith("died") else []
    result.code, result.failures = code, [(code, how)]
    result.signature = f"{result.kind} {result.label}: {code} {' '.join(last)[:60]}"
    return result


def new_base() -> Path:
    """Return a folder for the workers."""
    return Path(tempfile.mkdtemp(prefix="gpuplan-fuzz."))
