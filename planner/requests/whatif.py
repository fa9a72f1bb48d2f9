"""What ``gpuplan whatif`` is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt, json_parameters
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.planner.requests.calibrate import READING, SITE_LOG
from gpuplan.planner.requests.declaration import StudyRequest, study

if TYPE_CHECKING:
    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.analysis.site.schema import CalibrationTable
    from gpuplan.planner.twin.site_changes import SiteChange

SITE, OUTPUT, HAPPENED = "The site", "Output", "A change that happened"
NONE_GIVEN = (
    "give a change: --add-nodes, --remove-nodes, --set, --slurm-conf, --scale-load or "
    "--limits-times"
)


def epoch_s(time: datetime) -> int:
    """Return the second after 1970 of an instant."""
    return int(as_utc(time).timestamp())


@study(
    "whatif",
    title="A change of the Slurm site",
    example="gpuplan whatif sacct.txt --twin twin.toml --add-nodes 2",
    doing="replaying",
    has_rows=False,
)
@dataclass(frozen=True, slots=True)
class WhatIfRequest(StudyRequest):
    """Show what a change of a Slurm site does to waits.

    Whether users would submit otherwise is not modeled.

    Attributes:
        trace: the log, or a trace that kept its scheduler's fields.
        twin: the site's settings.
        add_nodes, remove_nodes: changes of the form ``[PARTITION=]N``.
        values: changes of the form ``KEY=VALUE``.
        slurm_conf: files whose settings are changes.
        scale_load, limits_times: factors.
        together: whether all changes are one.
        by: what groups are.
        level: the rules to replay; None for those that the calibration chose.
        limit_factor: limit of a job without one, over its run time; None as calibrated.
        strict: whether the growth of waits for gates counts what could be.
        validate: when a change happened, in place of changes.
        before, after: slurm.conf before and after ``validate``.
    """

    PANEL: ClassVar[str] = "Changes"

    trace: Annotated[Path, SITE_LOG]
    twin: Annotated[
        Path,
        Opt(
            "The site's settings, written by [bold]gpuplan calibrate[/bold].",
            metavar="FILE.toml",
            panel=SITE,
            common=True,
        ),
    ]
    add_nodes: Annotated[
        tuple[str, ...],
        Opt(
            "Add nodes like the most common one of a partition, or of the site; may be repeated.",
            metavar="[PARTITION=]N",
            many=True,
            common=True,
        ),
    ] = ()
    remove_nodes: Annotated[
        tuple[str, ...],
        Opt(
            "Remove nodes of the most common kind; may be repeated.",
            metavar="[PARTITION=]N",
            many=True,
            common=True,
        ),
    ] = ()
    values: Annotated[
        tuple[str, ...],
        Opt(
            "Change a setting of twin.toml, for example qos.normal.MaxTRESPU.gpu=32; may be "
            "repeated.",
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
            "Take nodes, partitions and priorities from this file; may be repeated.",
            metavar="FILE",
            many=True,
        ),
    ] = ()
    scale_load: Annotated[
        tuple[float, ...],
        Opt("Multiply the arrival rate of jobs by this; may be repeated.", many=True, common=True),
    ] = ()
    limits_times: Annotated[
        tuple[float, ...],
        Opt(
            "Multiply every time limit, down to the run time; may be repeated.",
            many=True,
            common=True,
        ),
    ] = ()
    together: Annotated[
        bool, Opt("Make all changes at once, not one by one.", flag="--together")
    ] = False
    by: Annotated[
        str,
        Opt(
            "Groups of the answer: account, user, partition, qos or size.",
            metavar="GROUP",
            panel=OUTPUT,
            common=True,
        ),
    ] = "account"
    level: Annotated[
        str | None,
        Opt(
            "Rules to replay: fifo, easy, bf, multifactor, limits or events; otherwise those that "
            "calibrate chose.",
            metavar="LEVEL",
            panel=SITE,
        ),
    ] = None
    limit_factor: Annotated[
        float | None,
        Opt(
            "Time limit of a job without one, over its run time. Default: as calibrated.",
            low=1.0,
            high=1000.0,
            panel=READING,
        ),
    ] = None
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
        Opt("slurm.conf before --validate.", metavar="FILE", panel=HAPPENED, omitted=True),
    ] = None
    after: Annotated[
        Path | None,
        Opt("slurm.conf after --validate.", metavar="FILE", panel=HAPPENED, omitted=True),
    ] = None

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that a slurm.conf includes."""
        from gpuplan.analysis.site.slurm_conf import included_files

        confs = [path for path in (*self.slurm_conf, self.before, self.after) if path is not None]
        return (self.trace, self.twin, *(file for path in confs for file in included_files(path)))

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        from gpuplan.planner.site.pairs import check_groups

        changes = self.changes()
        named = [path for path in (self.before, self.after) if path is not None]
        if self.validate is None and named:
            raise UsageError("--before and --after: need --validate DATE")
        if self.validate is not None and (changes or len(named) < 2):
            raise UsageError("--validate: needs --before FILE and --after FILE, and no change")
        if self.validate is None and not changes:
            raise UsageError(NONE_GIVEN)
        check_groups(self.by, self.calibration().level)

    def changes(self) -> tuple[SiteChange, ...]:
        """Return the changes one by one. Raises `InputError` or `UsageError`."""
        from gpuplan.analysis.site.slurm_conf import read_slurm_conf
        from gpuplan.planner.twin import site_changes

        return (
            *map(site_changes.add_nodes, self.add_nodes),
            *map(site_changes.remove_nodes, self.remove_nodes),
            *map(site_changes.set_value, self.values),
            *(
                site_changes.new_settings(path.name, read_slurm_conf(path))
                for path in self.slurm_conf
            ),
            *map(site_changes.scale_load, self.scale_load),
            *map(site_changes.scale_limits, self.limits_times),
        )

    def site(self) -> tuple[SiteDocument, CalibrationTable]:
        """Return the settings, and what the calibration found. Raises `InputError`."""
        from gpuplan.analysis.site.document import read_twin

        return read_twin(self.twin)

    def calibration(self) -> CalibrationTable:
        """Return how to replay: as calibrated where the request does not say."""
        from msgspec import structs

        calibration = self.site()[1]
        factor = calibration.limit_factor if self.limit_factor is None else self.limit_factor
        level = self.level or calibration.level
        return structs.replace(calibration, level=level, limit_factor=factor)

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        calibration = self.calibration()
        replayed = {"level": calibration.level, "limit_factor": calibration.limit_factor}
        return json_parameters(self) | replayed
