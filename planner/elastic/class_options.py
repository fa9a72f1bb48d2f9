"""Options of the job classes of a plan: which column tells them apart, widths, weights, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, ClassVar, Literal, get_args

from gpuplan.analysis.base.amounts import once, parse_duration, parse_time
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.option import Opt
from gpuplan.simkit.limits import DEFAULT_MAX_WIDTH, MOST_GPUS

ClassBy = Literal["job_class", "user", "group", "num_gpus"]
CLASS_COLUMNS: tuple[str, ...] = get_args(ClassBy)
WIDTHS = "Which GPUs a job may get"
CAP = re.compile(r"^(?P<name>.*\S)\s*<=\s*(?P<time>\S+)$")
SLOWER = re.compile(r"(?P<times>\d+\.?\d*|\.\d+)x?", re.I)
LEAST_HORIZON_S = 1.0
DEFAULT_RESCALE_S = 60.0
"""Assumed time of a start or a change of width: between a warm restart and a cold one."""


def parse_caps(texts: Sequence[str], flag: str = "--require") -> dict[str, float]:
    """Return seconds by class from ``bert <= 2h``.

    Raises:
        UsageError: a text is not such a requirement, or repeats a class.
    """
    caps: dict[str, float] = {}
    for text in texts:
        match = CAP.match(text.strip())
        if match is None:
            raise UsageError(f"{flag} {text!r}: expected 'CLASS <= TIME' such as 'bert <= 2h'")
        once(caps, match["name"], flag)
        caps[match["name"]] = parse_time(match["time"], f"{flag} {text!r}: time")
    return caps


def parse_limits(texts: Sequence[str], flag: str = "--limit") -> dict[str, int]:
    """Return GPUs by class from ``bert=16``. Raises `UsageError` as `parse_caps` does."""
    limits: dict[str, int] = {}
    for text in texts:
        name, _, gpus = (part.strip() for part in text.rpartition("="))
        if not name or not re.fullmatch("[0-9]{1,7}", gpus):
            raise UsageError(f"{flag} {text!r}: expected CLASS=GPUS such as bert=16")
        once(limits, name, flag)
        limits[name] = int(gpus)
    return limits


def parse_widths(text: str, flag: str = "--widths") -> tuple[int, ...]:
    """Return the widths of ``1,2,4,8``. Raises `UsageError` for an invalid list."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag} {text!r}: expected whole GPUs such as 1,2,4,8,16") from None


def parse_weights(texts: Sequence[str], flag: str = "--weight") -> dict[str, float]:
    """Return weights by class from ``class=weight``. Raises `UsageError` where one is not so."""
    weights: dict[str, float] = {}
    for text in texts:
        name, equals, weight = text.rpartition("=")
        try:
            weights[name.strip()] = float(weight if equals else "")
        except ValueError:
            raise UsageError(f"{flag} {text!r}: expected CLASS=W such as bert=2") from None
    return weights


def parse_slower(text: str, flag: str = "--slower", *, may_be_faster: bool = False) -> float:
    """Return the times of ``1.25x``. Raises `UsageError` for other texts, and below 1.

    With ``may_be_faster`` a bound below 1, but above 0, asks for shorter times than recorded.
    """
    match = SLOWER.fullmatch(text.strip())
    times = 0.0 if match is None else float(match["times"])
    is_enough = times > 0 if may_be_faster else times >= 1
    if not is_enough or times == float("inf"):
        least = "above 0" if may_be_faster else "at least 1"
        raise UsageError(
            f"{flag} {shortened(text)}: expected how many times as long as recorded a job may "
            f"run, {least}, such as 1.25x"
        )
    return times


def write_slower(times: float | None) -> str | None:
    """Return ``1.25x``, as JSON has it."""
    return None if times is None else f"{times:.10g}x"


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """How a trace becomes a workload.

    Attributes:
        class_by: column that defines the classes, one of `CLASS_COLUMNS`.
        horizon_s: time over which the jobs arrive; None for the span of their submissions.
        rescale_s: time of a start or a change of width, for every class; None for what the profile
            measured, and ``unmeasured_rescale_s`` where it measured none.
        unmeasured_rescale_s: see there.
        max_width: widest candidate in GPUs; None for 64, or all that a profile measured.
        widths: the candidate widths; None for every whole one from the least measured.
        scale_work: factor on job sizes that come from a profile and not from the trace.
        weights: weight of an hour of a job in the objective, by class; 1 for others.
        limits: widest candidate in GPUs of some classes, instead of ``max_width``.
        caps_s: most seconds that the jobs of some classes may take on average.
        slower: most times as long as recorded that a job may run at its planned widths, starts
            and changes of width left out; None for no bound. Classes are then divided by the
            GPUs that their jobs held.
        width_step: candidate widths are its multiples, as where GPUs come in whole nodes; None
            for 1. A class that can use no more than a part of one gets one.
    """

    PANEL: ClassVar[str] = "How the jobs scale"

    class_by: Annotated[ClassBy, Opt("Column that defines job classes.")] = "job_class"
    horizon_s: Annotated[
        float | None,
        Opt(
            "Time over which the jobs arrive, such as 48h. Default: from the first to the last "
            "submission.",
            flag="--horizon",
            parse=parse_duration,
        ),
    ] = None
    rescale_s: Annotated[
        float | None,
        Opt(
            "Time a job loses at each start and change of width, such as 20s; 0 for free "
            "restarts. Default: as the profile measured, else 60s.",
            flag="--rescale",
            parse=parse_duration,
        ),
    ] = None
    unmeasured_rescale_s: float = DEFAULT_RESCALE_S
    max_width: Annotated[
        int | None,
        Opt(
            "Most GPUs one job may get. Default: 64, or the most a profile measured.",
            panel=WIDTHS,
            common=True,
            low=1,
            high=MOST_GPUS,
        ),
    ] = None
    widths: Annotated[
        tuple[int, ...] | None,
        Opt(
            "GPU counts a job may get, such as 1,2,4,8,16. Default: every count up to "
            "--max-width, from the fewest measured.",
            parse=parse_widths,
            panel=WIDTHS,
        ),
    ] = None
    width_step: Annotated[
        int | None,
        Opt(
            "Jobs get a multiple of this many GPUs, such as 4 on nodes of 4. Default: 1.",
            panel=WIDTHS,
            low=1,
            high=MOST_GPUS,
        ),
    ] = None
    scale_work: float = 1.0
    limits: Annotated[
        Mapping[str, int],
        Opt(
            "Most GPUs for jobs of a class, such as bert=16. May be repeated.",
            flag="--limit",
            key="limits_gpus",
            parse=parse_limits,
            metavar="CLASS=GPUS",
            panel=WIDTHS,
            many=True,
        ),
    ] = field(default_factory=dict)
    caps_s: Annotated[
        Mapping[str, float],
        Opt(
            "Longest mean completion time of a class, such as 'bert <= 2h'. May be repeated.",
            flag="--require",
            key="require_s",
            parse=parse_caps,
            metavar="'CLASS <= TIME'",
            panel=WIDTHS,
            many=True,
        ),
    ] = field(default_factory=dict)
    slower: Annotated[
        float | None,
        Opt(
            "Longest run of a job over its recorded run: 1.25x. Jobs of a class that held other "
            "numbers of GPUs are planned apart.",
            parse=parse_slower,
            write=write_slower,
            metavar="TIMESx",
            panel=WIDTHS,
            common=True,
        ),
    ] = None
    weights: Annotated[
        Mapping[str, float],
        Opt(
            "Weight of a class in the mean that is minimized, such as bert=2. Default: 1. May be "
            "repeated.",
            flag="--weight",
            parse=parse_weights,
            metavar="CLASS=W",
            panel=WIDTHS,
            many=True,
        ),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.class_by not in CLASS_COLUMNS:
            raise UsageError(
                f"--class-by {self.class_by!r}: expected one of {', '.join(CLASS_COLUMNS)}"
            )
        if self.horizon_s is not None and not self.horizon_s >= LEAST_HORIZON_S:
            raise UsageError(f"--horizon must be at least 1 s, got {self.horizon_s:g} s")
        if self.rescale_s is not None and not 0 <= self.rescale_s < float("inf"):
            raise UsageError(f"--rescale must be at least 0 s, got {self.rescale_s:g}")
        if self.max_width is not None and self.max_width < 1:
            raise UsageError(f"--max-width must be at least 1 GPU, got {self.max_width}")
        for width in self.widths or ():
            if not 1 <= width <= MOST_GPUS:
                raise UsageError(
                    f"--widths: a width is 1 to {MOST_GPUS:,} GPUs, got {shortened(str(width))}"
                )
        for name, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise UsageError(f"--weight {name}={weight:g}: a weight must be above 0")
        for name, limit in self.limits.items():
            if limit < 1:
                raise UsageError(f"--limit {name}={limit}: a limit is at least 1 GPU")
        for name, cap_s in self.caps_s.items():
            if not 0 < cap_s < float("inf"):
                raise UsageError(f"--require {name}: a time must be above 0 s, got {cap_s:g}")
        if self.slower is not None and not 1 <= self.slower < float("inf"):
            raise UsageError(f"--slower must be at least 1x, got {self.slower:g}x")
        if self.width_step is not None and self.width_step < 1:
            raise UsageError(f"--width-step must be at least 1 GPU, got {self.width_step}")
        if self.width_step is not None and self.widths is not None:
            raise UsageError("use either --width-step or --widths, not both")

    def up_to(self, job_class: str, gpus: float) -> ClassOptions:
        """Return the choices with at least so many GPUs for a class, unless a limit is given."""
        if self.most_gpus(job_class) is not None or gpus <= DEFAULT_MAX_WIDTH:
            return self
        return replace(self, limits={**self.limits, job_class: ceil(gpus)})

    def most_gpus(self, job_class: str) -> int | None:
        """Return the most GPUs that a job of a class may get; None without a limit."""
        return self.limits.get(job_class, self.max_width)
