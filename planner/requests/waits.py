"""What ``gpuplan waits`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.site_request import (
    is_quota_site,
    read_quota_settings,
    read_site,
    selected_at_site,
)
from gpuplan.planner.requests.trace import TRACE

if TYPE_CHECKING:
    from gpuplan.analysis.quota.kueue_site import QuotaDocument
    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.analysis.site.schema import CalibrationTable
    from gpuplan.simkit.cluster_shape import ClusterShape


@study(
    "waits",
    title="Why jobs wait",
    picture="Jobs that wait over time, by reason",
    example="gpuplan waits sacct.txt --twin twin.toml --real",
    doing="reading waits",
    has_rows=False,
)
@dataclass(frozen=True, slots=True)
class WaitsRequest(StudyRequest):
    """Show why jobs wait, and if the cluster is too small.

    Waits are from submission to the first start of jobs with GPUs. Slurm keeps only the last
    reason of a job; --twin with --real tells which rule held it when.

    Attributes:
        jobs: which jobs are told of; GPUs are held by all.
    """

    trace: Annotated[Path, TRACE]
    jobs: Annotated[Selection, Group(without=("spot", "scale_duration", "scale_interarrival"))] = (
        field(default_factory=Selection)
    )
    cluster: Annotated[
        str | None,
        Opt(
            "GPUs that there are: 160, 8x4, or A100=20x4,H100=12x8 by type. Default: those of "
            "--twin, else of the nodes that the log names, else the most held at once.",
            metavar="SHAPE",
            common=True,
        ),
    ] = None
    twin: Annotated[
        Path | None,
        Opt(
            "The site's settings, written by [bold]gpuplan calibrate[/bold]: tells the GPUs and "
            "limits; of Kueue the quotas.",
            metavar="FILE.toml",
            common=True,
        ),
    ] = None
    real: Annotated[
        bool,
        Opt(
            "Tell which rule of a Slurm --twin held each job at each second of its wait, in place "
            "of the last reason that Slurm kept.",
            flag="--real",
            common=True,
        ),
    ] = False

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        if self.real and self.twin is None:
            raise UsageError("--real: needs --twin FILE.toml, which gpuplan calibrate writes")
        if self.real and self.is_of_kueue:
            raise UsageError(
                "--real: tells rules of Slurm, and --twin is of a site of Kueue\n"
                "  next: leave --real out; gpuplan whatif tells what a rule of Kueue costs"
            )
        if self.real and (self.jobs.period_from or self.jobs.period_to):
            raise UsageError("--real: takes no --from and --to; use --since and --until")
        self.shape()
        if self.is_of_kueue:
            self.quota_site()
        else:
            self.site()

    @property
    def is_of_kueue(self) -> bool:
        """Whether the settings are of a site of Kueue. Raises `InputError`."""
        return self.twin is not None and is_quota_site(self.twin)

    def quota_site(self) -> QuotaDocument:
        """Return the settings of a site of Kueue. Raises `InputError`."""
        if self.twin is None:
            raise ValueError("no settings")
        return read_quota_settings(self.twin)[0]

    def shape(self) -> ClusterShape | None:
        """Return the cluster that is stated. Raises `UsageError`."""
        if self.cluster is None:
            return None
        shape = read_shape(self.cluster, "--cluster")
        if shape.gpus is None:
            raise UsageError(f"--cluster {self.cluster}: needs a number of GPUs")
        return shape

    def site(self) -> tuple[SiteDocument, CalibrationTable] | None:
        """Return the site's settings and how they were calibrated. Raises `InputError`."""
        return None if self.twin is None else read_site(self.twin)

    def selection(self) -> Selection:
        """Return which jobs are told of, read in the zone of the site where ``twin`` tells it.

        Raises:
            InputError: the settings or the log cannot be read.
            UsageError: another time zone than that of the settings is requested.
        """
        twin = None if self.is_of_kueue else self.twin
        return selected_at_site(self.jobs, self.trace, twin)
