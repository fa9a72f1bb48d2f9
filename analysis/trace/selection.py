"""Which jobs of a trace a study uses, and how they are scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.job_table.log_options import LogOptions


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs of a trace to use, and how to scale them; applied in the order of the fields.

    Attributes:
        where: a polars SQL predicate over the canonical columns.
        since: keep jobs submitted at this instant or later (UTC).
        until: keep jobs submitted before this instant (UTC).
        sample: keep this many jobs, chosen uniformly at random without replacement.
        scale_duration: factor on every duration.
        scale_interarrival: factor on every gap between submissions; the first one stays.
        seed: of the choice.
        log: how to read a log that is given in place of a trace.
        period_from, period_to: count GPUs from this instant until this one alone (UTC), and keep
            the jobs that are submitted or run in between; None for the ends of the log.
        as_of: when the log was taken, to which jobs still running hold their GPUs; None for its
            last instant, or their recorded run times.
        spot: a predicate as ``where``; the jobs that match are spot and all others have high
            priority. None keeps the priorities of the trace.
    """

    where: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    sample: int | None = None
    scale_duration: float = 1.0
    scale_interarrival: float = 1.0
    seed: int = 0
    log: LogOptions = field(default_factory=LogOptions)
    spot: str | None = None
    period_from: datetime | None = None
    period_to: datetime | None = None
    as_of: datetime | None = None

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
        return {
            "where": self.where,
            "since": written_utc(self.since),
            "until": written_utc(self.until),
            "sample": self.sample,
            "scale_duration": self.scale_duration,
            "scale_interarrival": self.scale_interarrival,
            "seed": self.seed,
            **({} if self.spot is None else {"spot": self.spot}),
            **({} if self.as_of is None else {"as_of": written_utc(self.as_of)}),
            **({"period": self._period()} if self.has_period else {}),
        }

    def _period(self) -> dict[str, str | None]:
        return {"from": written_utc(self.period_from), "to": written_utc(self.period_to)}


def written_utc(time: datetime | None) -> str | None:
    """Return an instant as it is given on a command line, in UTC and without a zone."""
    if time is None:
        return None
    return (time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)).isoformat()
