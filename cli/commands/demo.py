"""``gpuplan demo``: the main job end to end on a shipped sample trace, as commands to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from gpuplan.analysis.base.errors import OutputError
from gpuplan.analysis.storage.files import check_writable, without_missing_parents
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.emit import write_stdout
from gpuplan.cli.documents.studies import show_study
from gpuplan.cli.formats.escape import terminal
from gpuplan.cli.options.shared_options import command

SAMPLE = "seren.csv"
PICTURES = ("workload.svg", "frontier.svg", "sweep.svg")


def register(app: typer.Typer) -> None:
    """Add ``gpuplan demo``."""
    command(app, "demo", example="gpuplan demo -o gpuplan-demo")(demo)


def demo(
    out: Annotated[
        Path,
        COMMON,
        typer.Option("--output", "-o", help="Folder for the trace and the charts.", metavar="DIR"),
    ] = Path("gpuplan-demo"),
) -> None:
    """Try gpuplan on a small synthetic trace.

    The steps are ingest, characterize, pareto and sweep. Each is an ordinary command, shown before
    its result, so that you can run it on a log of your own. Takes less than 20 s on two cores, the
    first run included.
    """
    out = without_missing_parents(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: cannot be made: {error.strerror}") from error
    trace = out / "seren.parquet"
    for name in (trace.name, *PICTURES):
        check_writable(out / name)
    with as_file(files("gpuplan.sample_traces") / SAMPLE) as sample:
        _say("Bring a log into one schema", "ingest", sample, "-o", trace)
        show_study("ingest", {}, sources=[sample], output=[trace])
        write_stdout("\n")
    _step("What is this workload?", "characterize", trace, {}, out / PICTURES[0])
    _step(
        "What completion time does each budget buy?",
        *("pareto", trace, {"speedup": "power:0.8", "budget": "1.1x,1.5x,2x,3x,5x"}),
        out / PICTURES[1],
    )
    _step(
        "Would serverless GPUs help, and for how long should a job stay there?",
        *("sweep", trace, {"threshold": "30,60,120,300,600,1800"}, out / PICTURES[2]),
    )
    pictures = ", ".join(str(path) for path in sorted(out.glob("*.svg")))
    write_stdout(terminal(f"Pictures: {pictures}") + "\n")
    messages.note("next: gpuplan ingest YOUR-LOG -o trace.parquet; gpuplan list formats")


def _step(question: str, command: str, trace: Path, options: Mapping[str, str], plot: Path) -> None:
    """Run one study of the trace under its question; an error ends the demo."""
    flags = [word for key, value in options.items() for word in (f"--{key}", value)]
    _say(question, command, trace, *flags, "--plot", plot)
    show_study(command, options, plot, trace=trace)
    write_stdout("\n")


def _say(question: str, *words: object) -> None:
    """Print a question and the command line that answers it."""
    line = shlex.join(map(str, words))
    write_stdout(f"# {question}\n{terminal(f'$ gpuplan {line}')}\n\n")
