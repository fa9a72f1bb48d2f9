"""Run the command line in this process, which is fast, and keep what it prints."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEAST_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        code: its exit code.
        out: its standard output.
        err: its standard error.
        cpu_s: processor time it took.
    """

    code: int
    out: bytes
    err: bytes
    cpu_s: float


def run_inside(
    arguments: list[str], folder: Path, stdin: bytes = b"", most_bytes: int | None = None
) -> Outcome:
    """Run a command line.

    Args:
        arguments: the arguments after ``gpuplan``.
        folder: where it runs.
        stdin: its standard input.
        most_bytes: the largest file it may write, in place of a small disk; standard output is
            lost then.
    """
    from gpuplan.cli.app import messages
    from gpuplan.cli.app.main import main

    messages.manners = type(messages.manners)()  # forget the options of the previous run
    here = os.getcwd()
    started = _cpu_s()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.chdir(folder)
        try:
            with _streams(out.fileno(), err.fileno(), stdin, most_bytes):
                try:
                    code = main(list(arguments))
                except BaseException as error:
                    os.write(2, f"error: escaped main ({type(error).__name__}: {error})".encode(
                        "utf-8", "backslashreplace"))  # fmt: skip
                    code = 70
        finally:
            os.chdir(here)
        out.seek(0)
        err.seek(0)
        return Outcome(code, out.read(), err.read(), _cpu_s() - started)


@contextlib.contextmanager
def _streams(out: int, err: int, stdin: bytes, most_bytes: int | None) -> Iterator[None]:
    """Replace the three standard streams with files, for Python and for compiled code."""
    before = (sys.stdin, sys.stdout, sys.stderr)
    before[1].flush()
    before[2].flush()
    saved = [os.dup(number) for number in range(3)]
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(given.fileno(), 0)
        os.dup2(out if most_bytes is None else nowhere, 1)
        os.dup2(err, 2)
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(
            2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (max(most_bytes, LEAST_LIMIT), hard))
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                yield
            with contextlib.suppress(OSError):
                sys.stdout.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            sys.stdin, sys.stdout, sys.stderr = before
            for number, kept in enumerate(saved):
                os.dup2(kept, number)
                os.close(kept)
            os.close(nowhere)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
