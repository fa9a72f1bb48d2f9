"""The application, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import atexit
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from gpuplan.analysis import plugins
from gpuplan.analysis.base.errors import GpuplanError, OutOfMemoryError, brief
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.storage.temporary import release_all
from gpuplan.cli.app import messages
from gpuplan.cli.app.interrupts import INTERRUPTED, State, stopped
from gpuplan.cli.app.lazy import COMMANDS, LazyGroup
from gpuplan.cli.app.parser_errors import usage_message

USAGE = 2
UNUSABLE = 3
BUG = 70  # EX_SOFTWARE of sysexits.h
CLICK_ERROR: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)

LEAST_BYTES = 2_000_000_000
"""Virtual memory: with 1.5 GB on two cores polars aborts while it reads a million rows."""

NEEDS_LITTLE = ("--help", "--version", "-h", "list", "init")
NO_MEMORY = re.compile(
    r"cannot allocate memory|memory allocation|failed to (spawn|map)", re.IGNORECASE
)
MORE_MEMORY = "give it more memory, or fewer jobs with --where, --since or --sample"

app = typer.Typer(
    cls=LazyGroup,
    name="gpuplan",
    help="Turn the job log of a GPU cluster into budget, scheduling and cloud decisions.",
    epilog="Start with [cyan]gpuplan demo[/cyan], or [cyan]gpuplan characterize LOG[/cyan]",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        sys.stdout.write(f"gpuplan {gpuplan_version()}\n")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Turn the job log of a GPU cluster into budget, scheduling and cloud decisions."""


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what goes wrong is raised."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _check_memory(words)
    code = app(args=words, prog_name="gpuplan", standalone_mode=False)
    if code == INTERRUPTED:  # newer versions of typer turn the interrupt into this code
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _check_memory(words: Sequence[str]) -> None:
    """Refuse to work under a limit on virtual memory at which polars would abort the process.

    Raises `OutOfMemoryError`.
    """
    if words[0] in NEEDS_LITTLE or not {"-h", "--help", "--help-all"}.isdisjoint(words):
        return
    try:
        import resource
    except ImportError:  # not on this system
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_BYTES:
        raise OutOfMemoryError(
            f"virtual memory is limited to {limit // 1_000_000:,} MB (ulimit -v); gpuplan needs at "
            f"least {LEAST_BYTES // 1_000_000:,} MB\n  next: ulimit -v unlimited, or limit the "
            "memory that is used (a cgroup) instead"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, report errors on stderr, and return the exit code.

    0 done; 1 a gate tripped; 2 usage; 3 the input is unusable; 4 infeasible; 130 interrupted;
    70 a bug of ours.
    """
    messages.manners.reset()  # of a command before it in the same process
    is_completing = "_GPUPLAN_COMPLETE" in os.environ  # a warning would stand in the prompt
    plugins.report_problems_to(_pass_over if is_completing else messages.warn)
    try:
        return execute(arguments)
    except GpuplanError as error:
        return _report(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _report("interrupted", INTERRUPTED)
    except CLICK_ERROR as error:
        return _report(brief(usage_message(error, _command(arguments))), USAGE)
    except SystemExit:  # what typer does where the reader of the help has closed the pipe
        return 0
    except BaseException as error:  # a panic of polars is not an Exception
        if _was_interrupted(error):
            return _report("interrupted", INTERRUPTED)
        if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
            return _report(f"out of memory ({brief(str(error))})\n  next: {MORE_MEMORY}", UNUSABLE)
        if isinstance(error, OSError):  # system errors: full disk, no permission, failing disk
            return _report(_of_system(error), UNUSABLE)
        if (failure := plugins.failure_of_package(error)) is not None:
            return _report(str(failure), failure.exit_code)
        problem = f"internal error ({type(error).__name__}: {brief(str(error))})"
        return _report(f"{problem}\n  next: run again with --debug and report what it shows", BUG)


def _command(arguments: Sequence[str] | None) -> str:
    """Return the command that is called, such as ``gpuplan bill``, or the program alone."""
    words = sys.argv[1:] if arguments is None else arguments
    return f"gpuplan {words[0]}" if words and words[0] in COMMANDS else "gpuplan"


def _pass_over(problem: str) -> None:
    """Say nothing."""


def run() -> None:
    """The entry point ``gpuplan``."""
    # Started with a stream closed (>&-), Python has none there.
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    try:
        State.running = True
        code = main()
    except KeyboardInterrupt:  # while the outcome was reported
        code = _report("interrupted", INTERRUPTED)
    State.running = False
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError) and code == 0:
            code = _report(f"standard output cannot be written: {error.strerror}", UNUSABLE)
    _leave(128 + stopped[0] if code == INTERRUPTED and stopped else code)


def _leave(code: int) -> NoReturn:
    """Exit with this code, and without the shutdown of Python, which answers no signal.

    Where an interrupt met code run by ``exec``, as in the making of a dataclass, Python would end
    with SIGINT whatever code `sys.exit` gets.
    """
    release_all()
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)


def _report(message: str, code: int) -> int:
    if messages.manners.debug:
        import traceback

        messages.say(traceback.format_exc().rstrip())
    messages.say(f"error: {message}")
    return code


def _of_system(error: OSError) -> str:
    """Return the error of the system and its file."""
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether an interrupt caused an error, as it does in a kernel."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
