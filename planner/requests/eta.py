"""What ``gpuplan eta`` is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.base.time_zones import epoch_second
from gpuplan.analysis.job_table.notation import read_time
from gpuplan.planner.requests.declaration import study
from gpuplan.planner.requests.site_request import SITE, TIME_ZONE, TWIN, TwinRequest, site_zone

REPLAYS = "Replays"


@study(
    "eta",
    title="When a job would start",
    picture="When the job would start",
    example="gpuplan eta sacct.txt --twin twin.toml --gpus 8 --limit 12h --user ana",
    doing="replaying",
    compiles=True,
    has_rows=False,
    more_forms={".toml": "the settings with the backtest, for later calls"},
)
@dataclass(frozen=True, slots=True)
class EtaRequest(TwinRequest):
    """Show when a job of Slurm or Kueue starts.

    Only what was known at the time of submission counts.
    """

    PANEL: ClassVar[str] = "The job"

    trace: Annotated[
        Path,
        Opt(
            "The log: sacct -a -X -P -D --noconvert output of the last weeks with running and "
            "waiting jobs, or a trace of it; or only the queue: squeue -a -o or --json. Of Kueue "
            "what kubectl prints of Workloads and queues.",
            key=None,
            metavar="LOG",
            argument=True,
        ),
    ]
    twin: Annotated[Path, TWIN]
    gpus: Annotated[int, Opt("GPUs of the job, on all its nodes.", low=1, common=True)]
    limit: Annotated[
        str | None,
        Opt(
            "Its time limit, for example 24h, 90min or 1-00:00:00. Kueue has none.",
            metavar="DURATION",
            common=True,
        ),
    ] = None
    nodes: Annotated[
        int | None,
        Opt("Nodes of the job, of Kueue pods. Default: as few as can hold its GPUs.", low=1),
    ] = None
    user: Annotated[
        str | None,
        Opt(
            "Who submits: their jobs and fair share count. Default: someone new in the account.",
            metavar="NAME",
            common=True,
        ),
    ] = None
    account: Annotated[
        str | None,
        Opt(
            "The account, of Kueue the namespace. Default: that of the user's jobs.", metavar="NAME"
        ),
    ] = None
    partition: Annotated[
        str | None,
        Opt(
            "The partition, of Kueue the ClusterQueue. Default: where such jobs go.",
            metavar="NAME",
            common=True,
        ),
    ] = None
    qos: Annotated[
        str | None,
        Opt(
            "The QOS, of Kueue the priority class. Default: that of such jobs.",
            flag="--qos",
            metavar="NAME",
        ),
    ] = None
    at: Annotated[
        str | None,
        Opt(
            "When it is submitted, local time, for example 2025-10-20T10:00. Default: the end of "
            "the log.",
            metavar="TIME",
            common=True,
        ),
    ] = None
    queue: Annotated[
        Path | None,
        Opt(
            "The running and waiting jobs at that time, if the log does not have them: output of "
            "squeue -a -o or --json, or of sacct.",
            metavar="FILE",
            panel=SITE,
            common=True,
        ),
    ] = None
    replays: Annotated[int, Opt("Replays of the site.", low=10, high=10_000, panel=REPLAYS)] = 200
    seed: Annotated[int, Opt("Seed of the draws.", low=0, panel=REPLAYS)] = 0
    backtest: Annotated[
        bool,
        Opt(
            "Forecast up to 200 jobs of the log and show how good the forecasts are; "
            "-o twin.toml keeps the result for later calls.",
            flag="--backtest",
            panel=REPLAYS,
            common=True,
        ),
    ] = False
    time_zone: Annotated[str | None, TIME_ZONE] = None

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        if self.is_of_kueue:
            self._check_for_quotas()
            return
        self.limit_s()
        self.at_s(site_zone(self.site()[1], self.twin, self.time_zone))

    def _check_for_quotas(self) -> None:
        """Check what can be checked of a site of Kueue. Raises `InputError` or `UsageError`."""
        if self.user is not None:
            raise UsageError(
                "--user: the log of Kueue names no users; --account names the namespace"
            )
        if self.queue is not None:
            raise UsageError(
                "--queue: a dump of Kueue has what runs and waits; give the newest one as LOG"
            )
        if self.limit is not None:
            self.limit_s()
        calibration = self.quota_site()[1]
        self.at_s(site_zone(calibration, self.twin, self.time_zone))

    def limit_s(self) -> int:
        """Return the seconds of the time limit. Raises `UsageError`."""
        if self.limit is None:
            raise UsageError("--limit: needs the time limit of the job, for example --limit 24h")
        return read_time(self.limit, "--limit")

    def at_s(self, zone: str) -> int | None:
        """Return the second after 1970 of ``at``, local where it has no offset."""
        if self.at is None:
            return None
        try:
            return epoch_second(self.at, zone)
        except ValueError:
            raise UsageError(
                f"--at must be a time such as 2025-10-20T10:00, got {self.at!r}"
            ) from None
