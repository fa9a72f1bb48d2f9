"""What ``gpuplan waste`` is asked: the log, series of what GPUs did, prices, when idle jobs end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.declaration import OF_USED_GPUS, StudyRequest, study
from gpuplan.planner.requests.delays import replayed_policy
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.site_request import read_site, selected_at_site
from gpuplan.planner.requests.trace import TRACE

if TYPE_CHECKING:
    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.analysis.site.schema import CalibrationTable
    from gpuplan.planner.compare import PolicySpec
    from gpuplan.simkit.cluster_shape import ClusterShape

LEAST_END_S = 60.0
CONSEQUENCES, RIGHT_SIZE = "Without the waste", "Right size and energy"


def parse_seconds(text: str, option: str) -> float:
    """Return the seconds of ``2h``. Raises `UsageError`."""
    return parse_duration(text, option)


def parse_memories(texts: Sequence[str], option: str) -> dict[str, float]:
    """Return GPU type -> GB of ``A100=80``. Raises `UsageError` for a text that is none."""
    memories: dict[str, float] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, equals, size = (word.strip() for word in part.rpartition("="))
        try:
            gigabytes = float(size.lower().removesuffix("gb"))
        except ValueError:
            gigabytes = -1.0
        if not (equals and name and 0 < gigabytes <= 10_000):
            raise UsageError(f"{option} {part!r}: expected TYPE=GB, such as A100=80")
        if gpu_name(name) in memories:
            raise UsageError(f"{option} {part!r}: {gpu_name(name)} is given twice; name it once")
        memories[gpu_name(name)] = gigabytes
    return memories


def memory_texts(memories: Mapping[str, float]) -> list[str]:
    """Return memories as they are written."""
    return [f"{name}={size:g}" for name, size in memories.items()]


@study(
    "waste",
    title="Who wastes GPUs",
    picture="Idle GPUs that jobs held over time",
    example="gpuplan waste sacct.txt --price 1.29 --twin twin.toml",
    doing="replaying",
    compiles=True,
    usual_for=OF_USED_GPUS,
)
@dataclass(frozen=True, slots=True)
class WasteRequest(StudyRequest):
    """Show who wastes GPUs, and the waits without it.

    Use comes from the log (jobstats summaries, columns of utilization) and from --metrics. A job
    that nothing is known of is unknown, never idle.

    Attributes:
        jobs: which of its jobs.
        prices: what GPUs cost; may be empty.
    """

    trace: Annotated[Path, TRACE]
    jobs: Annotated[
        Selection,
        Group(without=("spot", "scale_duration", "scale_interarrival", "period_from", "period_to")),
    ] = field(default_factory=Selection)
    metrics: Annotated[
        tuple[Path, ...],
        Opt(
            "What GPUs did over time: Prometheus query_range JSON of DCGM, nvidia-smi CSV, or W&B "
            "system metrics. May be repeated.",
            metavar="FILE",
            many=True,
            common=True,
        ),
    ] = ()
    prices: Annotated[PriceRequest, Group(rare=("contracts",))] = field(
        default_factory=PriceRequest
    )
    twin: Annotated[
        Path | None,
        Opt(
            "The site's settings, written by [bold]gpuplan calibrate[/bold]: its rules are "
            "replayed, not a policy.",
            metavar="FILE.toml",
            panel=CONSEQUENCES,
            common=True,
        ),
    ] = None
    policy: Annotated[
        str | None,
        Opt(
            "Policy that is replayed without --twin. Default: first-fit.",
            panel=CONSEQUENCES,
            complete="policies",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            "Today's cluster for the policy: 160, 8x4, or A100=20x4,H100=12x8 by type. Default: "
            "the most GPUs held at once.",
            metavar="SHAPE",
            panel=CONSEQUENCES,
        ),
    ] = None
    end_idle_after: Annotated[
        float,
        Opt(
            "In the replay, end jobs that have been idle for this long, such as 30m or 2h.",
            parse=parse_seconds,
            metavar="TIME",
            panel=CONSEQUENCES,
            shows_default=False,
            default="2h",
            common=True,
        ),
    ] = 7200.0
    replay: Annotated[
        bool,
        Opt(
            "Replay the waits without the waste.",
            flag="--replay/--no-replay",
            panel=CONSEQUENCES,
        ),
    ] = True
    gpu_memory: Annotated[
        Mapping[str, float],
        Opt(
            "Memory of a GPU type in GB, for jobs that use little of it: A100=80,H100=80. A type "
            "with a price that no job has is a cheaper one to compare with. May be repeated.",
            parse=parse_memories,
            write=memory_texts,
            metavar="TYPE=GB,...",
            panel=RIGHT_SIZE,
            many=True,
        ),
    ] = field(default_factory=dict)
    profile: Annotated[
        tuple[Path, ...],
        Opt(
            "Measured speed of a job class on shares of a GPU: a table as gpuplan profile reads "
            "it, named after the class (CLASS.csv), or functions.toml. May be repeated.",
            metavar="FILE",
            panel=RIGHT_SIZE,
            many=True,
        ),
    ] = ()
    usd_per_kwh: Annotated[
        float | None,
        Opt("Dollars of a kWh, where --metrics have power.", panel=RIGHT_SIZE, low=0.0),
    ] = None
    kg_co2_per_kwh: Annotated[
        float | None,
        Opt("Kilograms of CO2 of a kWh, where --metrics have power.", panel=RIGHT_SIZE, low=0.0),
    ] = None
    mail: Annotated[
        Path | None,
        Opt(
            "Write a text to each user with idle GPUs into this new folder. Nothing is sent.",
            key=None,
            metavar="DIR",
            writes=True,
            common=True,
        ),
    ] = None

    @property
    def writes(self) -> tuple[Path, ...]:
        """No file: ``mail`` is a folder, which the study makes."""
        return ()

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        if self.end_idle_after < LEAST_END_S:
            raise UsageError(
                f"--end-idle-after {self.end_idle_after:g} s: must be at least {LEAST_END_S:g} s, "
                "such as 30m or 2h"
            )
        for name, value in (("policy", self.policy), ("cluster", self.cluster)):
            if self.twin is not None and value is not None:
                raise UsageError(f"--{name}: not with --twin, which replays the site's rules")
        factors = (("usd-per-kwh", self.usd_per_kwh), ("kg-co2-per-kwh", self.kg_co2_per_kwh))
        for name, factor in factors:
            if factor is not None and not self.metrics:
                raise UsageError(f"--{name}: power is in series\n  next: add --metrics FILE")
        self._check_all_jobs()
        self.spec()
        self.shape()
        self.site()

    def _check_all_jobs(self) -> None:
        """Refuse a choice of jobs with a twin: the site's rules hold for all of them."""
        if self.twin is None or not self.replay:
            return
        jobs = self.jobs
        for name in ("where", "sample", "since", "until"):
            if getattr(jobs, name) is not None:
                raise UsageError(
                    f"--{name}: not with --twin, which replays the whole log under the site's "
                    "rules\n  next: --no-replay"
                )

    def spec(self) -> PolicySpec:
        """Return the policy to replay. Raises `UsageError`."""
        return replayed_policy(self.policy)

    def shape(self) -> ClusterShape | None:
        """Return today's cluster; None where not given. Raises `UsageError`."""
        return None if self.cluster is None else read_shape(self.cluster, "--cluster")

    def site(self) -> tuple[SiteDocument, CalibrationTable] | None:
        """Return the site's settings and how they were calibrated. Raises `InputError`."""
        return None if self.twin is None else read_site(self.twin)

    def selection(self) -> Selection:
        """Return which jobs are told of, read in the zone of the site where ``twin`` tells it.

        Raises:
            InputError: the settings or the log cannot be read.
            UsageError: another time zone than that of the settings is requested.
        """
        return selected_at_site(self.jobs, self.trace, self.twin)
