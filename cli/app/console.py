"""The entry point ``gpuplan``: it answers signals from before the first import to the last byte.

Until a command runs, a signal ends the process at once: nothing has been opened or begun. While it
runs, the first signal is raised as `KeyboardInterrupt`, so that everything is left in order; the
second ends the process after its temporary files are removed. What comes before this module, the
start of Python itself, answers Ctrl-C with a traceback of Python's and SIGTERM by ending.
"""

from __future__ import annotations

import os
import signal
import sys

from gpuplan.cli.app.interrupts import State, stopped

AGAIN_S = 0.01
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables that the libraries behind NumPy and SciPy read when they are loaded."""


def run() -> None:
    """Run the command line."""
    answer_signals()
    limit_threads()
    from gpuplan.cli.app.main import run as run_main

    run_main()


def answer_signals() -> None:
    """Take the signals that end a run, except those that the caller wants ignored."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as for nohup
            signal.signal(number, _answer)
    sys.unraisablehook = _again_if_swallowed


def limit_threads() -> None:
    """Give linear algebra one thread, unless the user says otherwise; call it before NumPy loads.

    Matrices are small here. On a busy machine threads wait for each other longer than they compute.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        for name in THREADS:
            os.environ.setdefault(name, "1")


def _answer(number: int, frame: object) -> None:
    """Raise an interrupt where a command can be left in order; else leave at once."""
    stopped.append(number)
    if State.running and len(stopped) == 1:
        raise KeyboardInterrupt
    descriptor = 2
    if State.running:
        from gpuplan.analysis.storage.standard_error import terminal
        from gpuplan.analysis.storage.temporary import release_all

        release_all()
        descriptor = terminal()
    os.write(descriptor, b"error: interrupted\n")
    os._exit(128 + stopped[0])


def _again_if_swallowed(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interrupt again that occurred in code that cannot raise, such as a finalizer."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    number = stopped.pop() if stopped else signal.SIGINT
    again = threading.Timer(AGAIN_S, os.kill, [os.getpid(), number])
    again.daemon = True
    again.start()
