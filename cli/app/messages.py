"""Messages besides the result: notes, warnings and progress, all on stderr."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpuplan.cli.formats import escape

SHOW_AFTER_S = 1.0
Advance = Callable[[float], None]
"""Called with the share of the work done, 0 to 1."""


@dataclass(slots=True)
class Manners:
    """Verbosity of the program; set once per run from the command's options."""

    quiet: bool = False
    verbose: bool = False
    debug: bool = False

    def reset(self) -> None:
        """Forget the options of a command."""
        self.quiet = self.verbose = self.debug = False


manners = Manners()


class _Listener(logging.Handler):
    """Shows what the library reports while it works: warnings, and the rest as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        values = record.args if isinstance(record.args, tuple) else ()
        # The name of a file may have line breaks; those of our own messages stay.
        record.args = tuple(escape.visible(str(v)) if isinstance(v, Path) else v for v in values)
        (warn if record.levelno >= logging.WARNING else note)(record.getMessage())


def listen() -> None:
    """Show the messages of the library from now on; a second call has no effect."""
    log = logging.getLogger("gpuplan")
    if not any(isinstance(handler, _Listener) for handler in log.handlers):
        log.addHandler(_Listener())
        log.setLevel(logging.INFO)
        log.propagate = False
    log.disabled = False  # another library's logging configuration may have switched it off


def say(message: str) -> None:
    """Write a line to standard error; ignored if that is closed."""
    try:
        sys.stderr.write(escape.message(f"{message}\n"))
        sys.stderr.flush()
    except OSError:
        # Python would try again when it ends, and fail then, so give it somewhere to write.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def note(message: str) -> None:
    """Print a useful but not essential note; silenced by ``--quiet``."""
    if not manners.quiet:
        say(message)


@contextmanager
def effort(what: str) -> Iterator[None]:
    """With ``--verbose``, print the time and memory of the work inside the block."""
    started = time.perf_counter()
    yield
    if manners.verbose:
        took = f"{time.perf_counter() - started:.2f} s"
        say(f"{what} took {took}{_peak_memory()}")


def _peak_memory() -> str:
    try:
        import resource
    except ImportError:  # not on this system
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return f" and at most {peak * unit / 1e6:,.0f} MB"


def warn(message: str) -> None:
    """Print a warning; never silenced."""
    say(f"warning: {message}")


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Show a progress bar on a terminal once the work has taken a second.

    It shows the rate and the remaining time. Yields a function to call with the share done;
    until its first call the bar only shows activity.
    """
    if manners.quiet or not sys.stderr.isatty():
        yield lambda share: None
        return
    from gpuplan.cli.app.progress import new_progress

    bar = new_progress()
    task = bar.add_task(what, total=None)
    timer = threading.Timer(SHOW_AFTER_S, bar.start)
    timer.daemon = True
    timer.start()

    def advance(share: float) -> None:
        bar.update(task, total=1.0, completed=share)

    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()  # a bar that is starting must finish starting before it can be stopped
        if bar.live.is_started:
            bar.stop()
