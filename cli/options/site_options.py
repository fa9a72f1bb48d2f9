"""Options of the commands that replay a log under its site's rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.options.log_choice import READING_PANEL

if TYPE_CHECKING:
    from gpuplan.analysis.site.document import SiteDocument
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

    slurm_conf: Annotated[Path | None, _file("slurm.conf of the site; Include is followed.")] = None
    scontrol: Annotated[
        list[Path] | None,
        _file("Output of scontrol show node -o or scontrol show partition -o; may be repeated."),
    ] = None
    sacctmgr: Annotated[
        list[Path] | None,
        _file("Output of sacctmgr show assoc, qos or events -P; may be repeated."),
    ] = None
    sshare: Annotated[
        Path | None, _file("Output of sshare -alP at the start of the log: usage.")
    ] = None
    cluster: Annotated[
        str | None,
        _file("Nodes, where no file gives them, for example 144x8 or A100=16x8,H100=4x8.", "SHAPE"),
    ] = None
    infer: Annotated[
        bool,
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

    @property
    def zone(self) -> str:
        """The zone. Raises `UsageError` for one that is not known."""
        if self.time_zone is None:
            return "UTC"
        from gpuplan.analysis.reading.times import check_zone

        return check_zone(self.time_zone)

    def files(self) -> list[Path]:
        """Return the files that the options name."""
        found = [self.slurm_conf, self.sshare, *(self.scontrol or ()), *(self.sacctmgr or ())]
        return [path for path in found if path is not None]

    def document(self) -> SiteDocument:
        """Read the files. Raises `InputError`."""
        from gpuplan.analysis.site.document import SiteDocument
        from gpuplan.analysis.site.dumps import read_dump
        from gpuplan.analysis.site.slurm_conf import read_slurm_conf

        document = SiteDocument()
        if self.slurm_conf is not None:
            document.merge(read_slurm_conf(self.slurm_conf))
        for path in (*(self.scontrol or ()), *(self.sacctmgr or ())):
            document.merge(read_dump(path, self.zone))
        if self.sshare is not None:
            document.merge(read_dump(self.sshare, self.zone))
        return document

    def shape(self) -> ClusterShape | None:
        """Return the shape of ``--cluster``. Raises `UsageError`."""
        if self.cluster is None:
            return None
        from gpuplan.analysis.errors import UsageError
        from gpuplan.simkit.cluster_shape import ClusterShape

        try:
            return ClusterShape.parse(self.cluster)
        except ValueError as error:
            raise UsageError(f"--cluster {error}") from error

    def warmup_s(self) -> int | None:
        """Return the seconds of ``--warmup``. Raises `UsageError`."""
        if self.warmup is None:
            return None
        from gpuplan.cli.formats.units import parse_duration

        return round(parse_duration(self.warmup, "--warmup"))

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return {
            "slurm_conf": None if self.slurm_conf is None else str(self.slurm_conf),
            "scontrol": [str(path) for path in self.scontrol or ()],
            "sacctmgr": [str(path) for path in self.sacctmgr or ()],
            "sshare": None if self.sshare is None else str(self.sshare),
            "cluster": self.cluster,
            "infer": self.infer,
            "time_zone": self.time_zone,
            "warmup": self.warmup,
            "limit_factor": self.limit_factor,
        }
