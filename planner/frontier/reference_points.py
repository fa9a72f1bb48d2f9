"""Measured or published results of other policies, compared with a frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.amounts import check_finite, parse_duration
from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.frontier.study import FrontierStudy


@dataclass(frozen=True, slots=True)
class Mark:
    """A known result of another policy or cluster.

    Attributes:
        name: its name.
        gpus: GPUs it rents or has on average; > 0.
        jct_s: its mean completion time, in seconds; > 0.
    """

    name: str
    gpus: float
    jct_s: float

    def __post_init__(self) -> None:
        if not (self.name and 0 < self.gpus < float("inf") and 0 < self.jct_s < float("inf")):
            raise ValueError(f"expected a name, and GPUs and a time above 0, got {self}")


def parse_reference_points(texts: Sequence[str]) -> tuple[Mark, ...]:
    """Return the points of ``Pollux=142,2087.8s``.

    Raises:
        UsageError: a text is not such a point, or repeats a name.
    """
    marks: dict[str, Mark] = {}
    for text in texts:
        name, _, point = (part.strip() for part in text.rpartition("="))
        gpus, comma, time = (part.strip() for part in point.partition(","))
        check_finite(gpus, "--mark")
        try:
            count = float(gpus)
        except ValueError:
            count = 0.0
        if not (name and comma and 0 < count < float("inf")):
            raise UsageError(f"--mark {text!r}: expected NAME=GPUS,JCT such as 'our cluster=64,2h'")
        if name in marks:
            raise UsageError(f"--mark: {name!r} is given twice")
        jct_s = parse_duration(time, f"--mark {text!r}: time")
        if not jct_s > 0:
            raise UsageError(f"--mark {text!r}: time: expected more than 0")
        marks[name] = Mark(name, count, jct_s)
    return tuple(marks.values())


@dataclass(frozen=True, slots=True)
class MarkedPoint:
    """A known point and the optimal plans that cost as much, or are as fast.

    Attributes:
        name: as given.
        gpus: that it rents or has on average.
        mean_jct_s: its mean completion time.
        optimal_mean_jct_s: of the optimal plan at the same GPUs; null if these are too few.
        optimal_gpus: least budget for the same mean completion time; null if none reaches it.
    """

    name: str
    gpus: float
    mean_jct_s: float
    optimal_mean_jct_s: float | None
    optimal_gpus: float | None


@dataclass(frozen=True, slots=True)
class ReferencePoints:
    """The section of a study about known points."""

    points: tuple[MarkedPoint, ...]

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "marks"

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for the reader."""
        return (
            "points of --mark are taken as given: they are comparable only if they cover the same "
            "jobs and count GPUs the same way",
        )

    def results(self) -> tuple[MarkedPoint, ...]:
        """Return the points."""
        return self.points


def reference_points_of(study: FrontierStudy, references: Sequence[Mark]) -> ReferencePoints:
    """Return known points next to the optimum of a study, as planned and not replayed."""
    return ReferencePoints(tuple(_marked(study, mark) for mark in references))


def _marked(study: FrontierStudy, mark: Mark) -> MarkedPoint:
    frontier = study.frontier
    plan = frontier.at_budget(mark.gpus) if frontier.is_enough(mark.gpus) else None
    jct_s = None if plan is None else float(plan.mean_jct_s)
    try:
        gpus = float(frontier.at_target_jct(mark.jct_s).budget)
    except InfeasibleError:
        gpus = None
    return MarkedPoint(mark.name, mark.gpus, mark.jct_s, jct_s, gpus)
