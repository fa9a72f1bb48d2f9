"""Options of the commands that replay a log under its site's rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.log_choice import READING_PANEL

if TYPE_CHECKING:
    from gpuplan.planner.studies.calibrate import CalibrateRequest
    from gpuplan.simkit.cluster_shape import ClusterShape

SITE_PANEL = "The site"

LogArgument = Annotated[
    Path,
    typer.Argument(
        help="The log: sacct -a -X -P -D --noconvert output, an SWF log, or a trace of "
        "[bold]gpuplan ingest --twin[/bold]; plain or compressed.",
        show_default=False,
        metavar="LOG",
    ),
]


def _file(help_text: str, metavar: str = "FILE") -> Any:
    return typer.Option(
        help=help_text, metavar=metavar, show_default=False, rich_help_panel=SITE_PANEL
    )


@dataclass(frozen=True, slots=True)
class SiteChoice:
    """What a command knows of a site."""

    slurm_conf: Annotated[
        Path | None, COMMON, _file("slurm.conf of the site; Include is followed.")
    ] = None
    scontrol: Annotated[
        list[Path] | None,
        _file("Output of scontrol show node -o or scontrol show partition -o; may be repeated."),
    ] = None
    sacctmgr: Annotated[
        list[Path] | None,
        COMMON,
        _file("Output of sacctmgr show assoc, qos or events -P; may be repeated."),
    ] = None
    sshare: Annotated[
        Path | None, _file("Output of sshare -alP at the start of the log: usage.")
    ] = None
    cluster: Annotated[
        str | None,
        COMMON,
        _file("Nodes, where no file gives them, for example 144x8 or A100=16x8,H100=4x8.", "SHAPE"),
    ] = None
    infer: Annotated[
        bool,
        COMMON,
        typer.Option(
            "--infer",
            help="Infer nodes, partitions and limits from the log where no file gives them. Every "
            "value is marked as inferred.",
            rich_help_panel=SITE_PANEL,
        ),
    ] = False  # fmt: skip
    time_zone: Annotated[
        str | None,
        typer.Option(
            help="Zone of times without an offset, for example Europe/Berlin; otherwise UTC.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None
    warmup: Annotated[
        str | None,
        typer.Option(
            help="Jobs submitted in this time after the first start as recorded and are not "
            "scored, for example 7d; otherwise a tenth of the log.",
            metavar="DURATION",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None
    limit_factor: Annotated[
        float,
        typer.Option(
            help="Time limit of a job without one, over its run time.",
            min=1.0,
            max=1000.0,
            rich_help_panel=READING_PANEL,
        ),
    ] = 2.0

    def request(self, log: Path, *, advice: bool, all_jobs: bool = False) -> CalibrateRequest:
        """Return the request of ``gpuplan calibrate``. Raises `UsageError`."""
        from gpuplan.planner.studies.calibrate import CalibrateRequest

        return CalibrateRequest(
            trace=log,
            slurm_conf=self.slurm_conf,
            scontrol=tuple(self.scontrol or ()),
            sacctmgr=tuple(self.sacctmgr or ()),
            sshare=self.sshare,
            shape=self._shape(),
            cluster=self.cluster,
            infer=self.infer,
            time_zone=self.time_zone,
            warmup_s=self._warmup_s(),
            warmup=self.warmup,
            limit_factor=self.limit_factor,
            advice=advice,
            all_jobs=all_jobs,
        )

    def _shape(self) -> ClusterShape | None:
        if self.cluster is None:
            return None
        from gpuplan.analysis.base.errors import UsageError
        from gpuplan.simkit.cluster_shape import ClusterShape

        try:
            return ClusterShape.parse(self.cluster)
        except ValueError as error:
            raise UsageError(f"--cluster {error}") from error

    def _warmup_s(self) -> int | None:
        if self.warmup is None:
            return None
        from gpuplan.analysis.base.amounts import parse_duration

        return round(parse_duration(self.warmup, "--warmup"))
