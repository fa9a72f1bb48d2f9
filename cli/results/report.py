"""``report.json``: what it has besides the JSON outputs of its studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.gates.gates import GateOutcome

ISO_TIME = Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")


@dataclass(frozen=True, slots=True)
class ReportedStudy:
    """What a study of a report has besides the JSON output of its command.

    Attributes:
        name: what the report and its gates call it.
        arguments: that its command was given.
        headline: the answer.
    """

    name: Annotated[str, Meta(pattern=r"^\w+$")]
    arguments: tuple[str, ...]
    headline: str


@dataclass(frozen=True, slots=True)
class ReportResults:
    """A report without its studies.

    Attributes:
        title: what it is about.
        time: when it was made, where that was asked for.
        inputs: the files that its studies read, each once.
        gates: the conditions on its studies.
        warnings: about the report as a whole.
        gpuplan_version: that made the results.
    """

    title: str
    time: Annotated[str, ISO_TIME] | None
    inputs: tuple[InputFile, ...]
    gates: tuple[GateOutcome, ...]
    warnings: tuple[str, ...]
    gpuplan_version: str
