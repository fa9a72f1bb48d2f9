"""What ``gpuplan whatif`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt, json_parameters
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.kubernetes.heads import refuse_other_objects
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.calibrate import SITE_LOG
from gpuplan.planner.requests.declaration import study
from gpuplan.planner.requests.site_request import LEVEL, LIMIT_FACTOR, TIME_ZONE, TWIN, SiteRequest

if TYPE_CHECKING:
    from gpuplan.planner.quota_twin.changes import QuotaChange
    from gpuplan.planner.twin.site_changes import SiteChange

CHANGES = (
    "add_nodes", "remove_nodes", "values", "slurm_conf", "limit", "max_time", "move", "limits_run",
    "reserve", "scale_load", "limits_times", "kueue_site",
)  # fmt: skip
"""The fields of changes, in the order of those whose order is not given."""
NAMES = {"values": "set", "kueue_site": "site"}
"""Field of a change -> its name for what reads it, where that is another."""
OUTPUT, HAPPENED = "Output", "A change that happened"
NONE_GIVEN = (
    "give a change: --limit, --add-nodes, --remove-nodes, --max-time, --move, --limits-run, "
    "--reserve, --set, --slurm-conf, --scale-load or --limits-times"
)


NONE_OF_KUEUE = (
    "give a change: --set clusterqueue.NAME.nominalQuota=16, --site FILE, --add-nodes, "
    "--remove-nodes or --scale-load"
)


def epoch_s(time: datetime) -> int:
    """Return the second after 1970 of an instant."""
    return int(as_utc(time).timestamp())


@study(
    "whatif",
    title="A change of the Slurm site",
    picture="Effect on waits, with its error",
    example="gpuplan whatif sacct.txt --twin twin.toml --add-nodes 2",
    doing="replaying",
    has_rows=False,
)
@dataclass(frozen=True, slots=True)
class WhatIfRequest(SiteRequest):
    """Show what a change of a site does to waits.

    Whether users would submit otherwise is not modeled.

    Attributes:
        prices: of a GPU-hour, for what changes cost; empty for no dollars.
        option_order: names of the fields of changes, one for each change, in their order; what is
            not among them comes last.
    """

    PANEL: ClassVar[str] = "Changes"

    trace: Annotated[Path, SITE_LOG]
    twin: Annotated[Path | None, TWIN] = None
    limit: Annotated[
        tuple[str, ...],
        Opt(
            "Of Slurm: most GPUs at a time, user=32 (each user), user:NAME=32, account:NAME=72, "
            "qos:NAME=96 or qos:NAME/user=32; none or -1 for no limit. May be repeated.",
            metavar="WHO=GPUS",
            many=True,
            common=True,
        ),
    ] = ()
    add_nodes: Annotated[
        tuple[str, ...],
        Opt(
            "Add N nodes like those of a GPU type, partition or node, such as a100=4; may be "
            "repeated.",
            metavar="[NAME=]N",
            many=True,
            common=True,
        ),
    ] = ()
    remove_nodes: Annotated[
        tuple[str, ...],
        Opt(
            "Remove N nodes likewise, or those of a host list, such as ga[17-20]; may be repeated.",
            metavar="[NAME=]N",
            many=True,
        ),
    ] = ()
    max_time: Annotated[
        tuple[str, ...],
        Opt(
            "Of Slurm: longest time limit of a partition, or of all: gpu=1d, short=90m; may be "
            "repeated.",
            metavar="[PARTITION=]TIME",
            many=True,
        ),
    ] = ()
    long_jobs: Annotated[
        str,
        Opt(
            "Of Slurm: jobs that ran longer than --max-time: continue (as a new job that queues "
            "again), cut (their work is lost) or clip (only limits change; they run to their end).",
            metavar="clip|cut|continue",
            complete=("clip", "cut", "continue"),
        ),
    ] = "continue"
    move: Annotated[
        tuple[str, ...],
        Opt(
            "Of Slurm: send the jobs of a partition to another one, such as debug=gpu; may be "
            "repeated.",
            metavar="FROM=TO",
            many=True,
        ),
    ] = ()
    limits_run: Annotated[
        tuple[float, ...],
        Opt(
            "Of Slurm: lower every time limit to at most this times the run time (at least 5 min): "
            "what better limits would do. May be repeated.",
            many=True,
            low=1.0,
            high=1000.0,
        ),
    ] = ()
    reserve: Annotated[
        tuple[str, ...],
        Opt(
            "Of Slurm: keep nodes for a partition, an account or a QOS: a100=2@account:climate, "
            "ga[01-02]@short; may be repeated.",
            metavar="NAME=N@WHO",
            many=True,
        ),
    ] = ()
    values: Annotated[
        tuple[str, ...],
        Opt(
            "Change a setting of twin.toml, for example qos.normal.MaxTRESPU.gpu=32, or of Kueue "
            "clusterqueue.team-a.nominalQuota=16, =+8 or =-8; may be repeated.",
            flag="--set",
            key="set",
            metavar="KEY=VALUE",
            many=True,
            common=True,
        ),
    ] = ()
    slurm_conf: Annotated[
        tuple[Path, ...],
        Opt(
            "Of Slurm: take nodes, partitions and priorities from this file; may be repeated.",
            metavar="FILE",
            many=True,
        ),
    ] = ()
    kueue_site: Annotated[
        tuple[Path, ...],
        Opt(
            "Of Kueue: take queues, cohorts and quotas from this dump, YAML or folder; may be "
            "repeated.",
            flag="--site",
            key="site",
            metavar="FILE|FOLDER",
            many=True,
            common=True,
        ),
    ] = ()
    scale_load: Annotated[
        tuple[float, ...],
        Opt("Multiply the arrival rate of jobs by this; may be repeated.", many=True, common=True),
    ] = ()
    limits_times: Annotated[
        tuple[float, ...],
        Opt(
            "Of Slurm: multiply every time limit, down to the run time; may be repeated.", many=True
        ),
    ] = ()
    together: Annotated[
        bool, Opt("Make all changes at once, not one by one.", flag="--together")
    ] = False
    by: Annotated[
        str | None,
        Opt(
            "Groups of the answer: account, user, partition, qos or size; of Kueue queue, "
            "namespace, priority or size. Default: account, or queue.",
            metavar="GROUP",
            panel=OUTPUT,
            common=True,
        ),
    ] = None
    level: Annotated[str | None, LEVEL] = None
    limit_factor: Annotated[float | None, LIMIT_FACTOR] = None
    time_zone: Annotated[str | None, TIME_ZONE] = None
    prices: Annotated[PriceRequest, Group(rare=("usd_per_gpu_h",), in_json=False)] = field(
        default_factory=PriceRequest
    )
    strict: Annotated[
        bool,
        Opt(
            "Trip gates on wait growth even where the effect is within its error.",
            flag="--strict",
            panel=OUTPUT,
        ),
    ] = False
    validate: Annotated[
        datetime | None,
        Opt(
            "Instead: replay a change that happened at this time (UTC), with --before and --after.",
            panel=HAPPENED,
            write=epoch_s,
            omitted=True,
            common=True,
        ),
    ] = None
    before: Annotated[
        Path | None,
        Opt(
            "slurm.conf before --validate. Of Kueue: the queues before --site, a file, a folder or "
            "a branch of its git repository.",
            metavar="FILE|BRANCH",
            panel=HAPPENED,
            omitted=True,
        ),
    ] = None
    after: Annotated[
        Path | None,
        Opt("slurm.conf after --validate.", metavar="FILE", panel=HAPPENED, omitted=True),
    ] = None
    option_order: tuple[str, ...] = field(default=(), compare=False)

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that a slurm.conf includes."""
        from gpuplan.analysis.site.slurm_conf import included_files

        if self.is_of_kueue:
            before = self.before if self.before is not None and self.before.exists() else None
            return (self.trace, self.twin, *self.kueue_site, before)
        happened = () if self.validate is None else (self.before, self.after)
        confs = [path for path in (*self.slurm_conf, *happened) if path is not None]
        included = (file for path in confs for file in included_files(path))
        return (self.trace, self.twin, self.prices.prices, self.prices.contracts, *included)

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        from gpuplan.planner.site.pairs import check_groups

        if self.is_of_kueue:
            self._check_for_quotas()
            return
        refuse_other_objects(self.trace)
        if self.kueue_site:
            raise UsageError("--site: is for a site of Kueue; of Slurm give --slurm-conf")
        changes = self.changes()
        named = [path for path in (self.before, self.after) if path is not None]
        if self.validate is None and named:
            raise UsageError("--before and --after: need --validate DATE")
        if self.validate is not None and (changes or len(named) < 2):
            raise UsageError("--validate: needs --before FILE and --after FILE, and no change")
        if self.validate is None and not changes:
            raise UsageError(NONE_GIVEN)
        check_groups(self.grouping, self.calibration().level)

    @property
    def grouping(self) -> str:
        """What groups are."""
        if self.by is not None:
            return self.by
        return "queue" if self.is_of_kueue else "account"

    def _check_for_quotas(self) -> None:
        """Check what can be checked of a site of Kueue. Raises `InputError` or `UsageError`."""
        from gpuplan.planner.quota_twin.what_if import check_quota_groups

        if self.validate is not None or self.after is not None:
            raise UsageError("--validate: replays changes of a Slurm site, and the log is of Kueue")
        if self.prices.is_given:
            raise UsageError("--price: dollars are of Slurm sites, and the log is of Kueue")
        if self.before is not None and len(self.kueue_site) != 1:
            raise UsageError("--before: needs one --site, the configuration after it")
        if not self.quota_changes():
            raise UsageError(NONE_OF_KUEUE)
        level = self.level
        if level is None and self.twin is not None:
            level = self.quota_site()[1].level
        check_quota_groups(self.grouping, level or "fair")

    def quota_changes(self) -> tuple[QuotaChange, ...]:
        """Return the changes of a site of Kueue in the order in which they are given.

        Raises `InputError` or `UsageError`.
        """
        from gpuplan.planner.quota_twin.changes import read_quota_change

        return tuple(read_quota_change(name, value) for name, value in self._in_order())

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        if not self.is_of_kueue:
            return SiteRequest.parameters(self) | {"by": self.grouping}
        level = self.level or (None if self.twin is None else self.quota_site()[1].level)
        return json_parameters(self) | {"by": self.grouping, "level": level}

    def changes(self) -> tuple[SiteChange, ...]:
        """Return the changes in the order in which they are given.

        Raises `InputError` or `UsageError`.
        """
        from gpuplan.planner.twin.change_texts import read_change

        return tuple(read_change(name, value, self.long_jobs) for name, value in self._in_order())

    def _in_order(self) -> list[tuple[str, str]]:
        """Return name and value of each change in the order in which they are given."""
        left = {name: list(getattr(self, name)) for name in CHANGES}
        pairs = [(name, left[name].pop(0)) for name in self.option_order if left.get(name)]
        pairs += [(name, value) for name, values in left.items() for value in values]
        return [(NAMES.get(name, name.replace("_", "-")), str(value)) for name, value in pairs]
