"""Which jobs of a trace a study uses, and how they are scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt, json_parameters
from gpuplan.analysis.base.time_units import LAST_SUBMIT, as_utc, written_utc
from gpuplan.analysis.job_table.log_options import LogOptions


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs of a trace to use, and how to scale them; applied in the order of the fields.

    Attributes:
        where: a polars SQL predicate over the canonical columns.
        since: keep jobs submitted at this instant or later (UTC).
        until: keep jobs submitted before this instant (UTC).
        as_of: when the log was taken, to which jobs still running hold their GPUs; None for its
            last instant, or their recorded run times.
        sample: keep this many jobs, chosen uniformly at random without replacement.
        scale_duration: factor on every duration.
        scale_interarrival: factor on every gap between submissions; the first one stays.
        seed: of the choice.
        period_from, period_to: count GPUs from this instant until this one alone (UTC), and keep
            the jobs that are submitted or run in between; None for the ends of the log.
        spot: a predicate as ``where``; the jobs that match are spot and all others have high
            priority. None keeps the priorities of the trace.
        log: how to read a log that is given in place of a trace.
    """

    PANEL: ClassVar[str] = "Which jobs"

    where: Annotated[
        str | None,
        Opt(
            'Use only jobs that match this SQL condition, such as "num_gpus >= 8 AND '
            "state = 'completed'\".",
            metavar="CONDITION",
            common=True,
        ),
    ] = None
    since: Annotated[
        datetime | None, Opt("Use only jobs submitted at this time (UTC) or later.")
    ] = None
    until: Annotated[datetime | None, Opt("Use only jobs submitted before this time (UTC).")] = None
    as_of: Annotated[
        datetime | None,
        Opt(
            "When the log was taken (UTC): jobs still running hold their GPUs until then. "
            "Default: the log's last submission, start or end.",
            omitted=True,
        ),
    ] = None
    sample: Annotated[int | None, Opt("Use this many jobs, sampled at random.", low=1)] = None
    scale_duration: Annotated[float, Opt("Multiply every duration by this.")] = 1.0
    scale_interarrival: Annotated[
        float, Opt("Multiply every gap between submissions by this. 0.5 doubles the load.")
    ] = 1.0
    seed: Annotated[
        int, Opt("Seed of everything random. The same seed gives the same bytes.", low=0)
    ] = 0
    period_from: Annotated[
        datetime | None,
        Opt(
            "Count GPUs from this time on (UTC), until --to: runs are cut to the period, also of "
            "jobs submitted before. Default: the first submission.",
            flag="--from",
            key="period.from",
            omitted=True,
            common=True,
        ),
    ] = None
    period_to: Annotated[
        datetime | None,
        Opt(
            "Count GPUs until this time (UTC), which is not included. Default: the end of the log.",
            flag="--to",
            key="period.to",
            omitted=True,
        ),
    ] = None
    spot: Annotated[
        str | None,
        Opt(
            "Which jobs are spot: a condition as for --where, such as 'duration_s < 3600'. All "
            "others have high priority. Default: the priorities of the trace.",
            metavar="CONDITION",
            panel="Options",
            omitted=True,
        ),
    ] = None
    log: Annotated[LogOptions, Group(in_json=False)] = field(default_factory=LogOptions)

    @property
    def has_period(self) -> bool:
        """Whether GPUs are counted in a part of the log."""
        return self.period_from is not None or self.period_to is not None

    @property
    def submission_notes(self) -> tuple[str, ...]:
        """What to know where GPUs are counted of jobs that are chosen by submission."""
        if self.has_period or (self.since is None and self.until is None):
            return ()
        return (
            "--since and --until choose jobs by submission: each counts until it ends, and jobs "
            "already running do not count\n  next: --from and --to count what ran in a period",
        )

    def __post_init__(self) -> None:
        for name in ("since", "until", "period_from", "period_to", "as_of"):
            if (time := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_utc(time))
                if as_utc(time) > LAST_SUBMIT:
                    option = name.removeprefix("period_").replace("_", "-")
                    raise UsageError(
                        f"--{option} {time:%Y-%m-%d}: expected a time of the years 1 to "
                        f"{LAST_SUBMIT.year}"
                    )
        if self.has_period and (self.scale_duration != 1 or self.scale_interarrival != 1):
            raise UsageError(
                "--from and --to are times of the log: not with --scale-duration or "
                "--scale-interarrival"
            )
        begin, end = self.period_from, self.period_to
        if begin is not None and end is not None and begin >= end:
            raise UsageError(f"--to {written_utc(end)}: must be after --from {written_utc(begin)}")
        for name in ("scale_duration", "scale_interarrival"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise UsageError(f"--{name.replace('_', '-')} must be above 0, got {value:g}")
        if self.sample is not None and self.sample < 1:
            raise UsageError(f"--sample must be at least 1 job, got {self.sample}")

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return json_parameters(self)
