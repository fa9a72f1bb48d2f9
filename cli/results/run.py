"""The results of ``gpuplan run --list``, as JSON has them; those of a run are a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunParameters:
    """What was asked for: the scenario file says it."""


@dataclass(frozen=True, slots=True)
class RunWorkload:
    """The jobs of a scenario.

    Attributes:
        trace: the trace or log.
        made_by: the command that makes it, with its arguments; empty where it is there already.
    """

    trace: str
    made_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedStudy:
    """A study that would run.

    Attributes:
        name: what documents and gates call it.
        command: that it runs.
        arguments: of the command.
        cached: whether its result is there already.
    """

    name: str
    command: str
    arguments: tuple[str, ...]
    cached: bool


@dataclass(frozen=True, slots=True)
class RunResults:
    """What would run.

    Attributes:
        workload: the jobs.
        studies: in the order of the scenario.
        gates: the conditions on the results.
    """

    workload: RunWorkload
    studies: tuple[PlannedStudy, ...]
    gates: tuple[str, ...]
