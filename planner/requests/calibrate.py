"""What ``gpuplan calibrate`` is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt, files_read
from gpuplan.analysis.job_table.notation import read_time
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.shapes import read_shape

if TYPE_CHECKING:
    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.simkit.cluster_shape import ClusterShape

READING = "How to read the input"
SITE_LOG = Opt(
    "The log: output of sacct (docs/twin.md has the command), an SWF log, the trace that "
    "[bold]gpuplan ingest[/bold] makes of one, or what kubectl prints of Kueue's Workloads "
    "(docs/kueue.md); plain or compressed.",
    key=None,
    metavar="LOG",
    argument=True,
)


@study(
    "calibrate",
    title="How well the site's rules explain its waits",
    picture="Replayed against recorded waits",
    example="gpuplan calibrate sacct.txt --slurm-conf slurm.conf -o twin.toml",
    doing="calibrating",
    has_rows=False,
    more_forms={".toml": "the settings for gpuplan whatif"},
)
@dataclass(frozen=True, slots=True)
class CalibrateRequest(StudyRequest):
    """Show how well the rules of a site explain its waits.

    The file twin.toml (-o twin.toml) keeps the settings for gpuplan whatif.
    """

    PANEL: ClassVar[str] = "The site"

    trace: Annotated[Path, SITE_LOG]
    slurm_conf: Annotated[
        Path | None, Opt("slurm.conf of the site; Include is followed.", common=True)
    ] = None
    scontrol: Annotated[
        tuple[Path, ...],
        Opt(
            "Output of scontrol show node, partition or config, with -o or without; may be "
            "repeated.",
            many=True,
            common=True,
        ),
    ] = ()
    sacctmgr: Annotated[
        tuple[Path, ...],
        Opt(
            "Output of sacctmgr show assoc, qos or events -P; may be repeated.",
            many=True,
            common=True,
        ),
    ] = ()
    sshare: Annotated[Path | None, Opt("Output of sshare -alP at the start of the log: usage.")] = (
        None
    )
    site: Annotated[
        Path | None,
        Opt(
            "Of Kueue: its queues, where the dump of Workloads has none: another dump, YAML, or a "
            "folder of it.",
            metavar="FILE|FOLDER",
            common=True,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            "Nodes, where no file gives them, for example 144x8 or A100=16x8,H100=4x8.",
            metavar="SHAPE",
            common=True,
        ),
    ] = None
    infer: Annotated[
        bool,
        Opt(
            "Infer nodes, partitions and limits from the log where no file gives them. Every "
            "value is marked as inferred.",
            flag="--infer",
            common=True,
        ),
    ] = False
    time_zone: Annotated[
        str | None,
        Opt(
            "Zone of times without an offset, for example Europe/Berlin; otherwise UTC.",
            metavar="NAME",
            panel=READING,
            common=True,
        ),
    ] = None
    warmup: Annotated[
        str | None,
        Opt(
            "Jobs submitted in this time after the first start as recorded and are not scored, "
            "for example 7d; otherwise a tenth of the log.",
            metavar="DURATION",
            panel=READING,
        ),
    ] = None
    limit_factor: Annotated[
        float,
        Opt(
            "Time limit of a job without one, over its run time.", low=1.0, high=1000.0,
            panel=READING,
        ),
    ] = 2.0  # fmt: skip
    all_jobs: Annotated[
        bool,
        Opt(
            "Replay all jobs of a log of over 200,000, not only those of its last weeks.",
            flag="--all-jobs",
            panel=READING,
        ),
    ] = False
    advice: Annotated[
        bool,
        Opt(
            "Say what the pattern of the errors suggests to look at.",
            flag="--advice",
            panel="Output",
            common=True,
        ),
    ] = False

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that slurm.conf includes."""
        from gpuplan.analysis.site.slurm_conf import included_files

        named = () if self.slurm_conf is None else tuple(included_files(self.slurm_conf))
        return (*files_read(self), *named)

    def check(self) -> None:
        """Check what can be checked before files are read. Raises `UsageError`."""
        from gpuplan.analysis.reading.times import check_zone

        if self.time_zone is not None:
            check_zone(self.time_zone)
        self.shape()
        self.warmup_s()

    def check_for_quotas(self) -> None:
        """Refuse options that a site of Kueue has no use for. Raises `UsageError`."""
        slurm = {
            "--slurm-conf": self.slurm_conf, "--scontrol": self.scontrol,
            "--sacctmgr": self.sacctmgr, "--sshare": self.sshare, "--cluster": self.cluster,
            "--infer": self.infer, "--time-zone": self.time_zone,
        }  # fmt: skip
        if useless := [option for option, value in slurm.items() if value]:
            raise UsageError(
                f"{', '.join(useless)}: {self.trace} is of Kueue, whose queues are in the "
                "dump or in --site FILE"
            )

    def shape(self) -> ClusterShape | None:
        """Return the nodes of ``cluster``. Raises `UsageError`."""
        return None if self.cluster is None else read_shape(self.cluster, "--cluster")

    def warmup_s(self) -> int | None:
        """Return the seconds of ``warmup``. Raises `UsageError`."""
        return None if self.warmup is None else read_time(self.warmup, "--warmup", least=0)

    def document(self) -> SiteDocument:
        """Return the settings in the files. Raises `InputError`."""
        from gpuplan.analysis.site.document import SiteDocument
        from gpuplan.analysis.site.dumps import read_dump
        from gpuplan.analysis.site.slurm_conf import read_slurm_conf

        document, zone = SiteDocument(), self.time_zone or "UTC"
        if self.slurm_conf is not None:
            document.merge(read_slurm_conf(self.slurm_conf))
        for path in (*self.scontrol, *self.sacctmgr):
            document.merge(read_dump(path, zone))
        if self.sshare is not None:
            document.merge(read_dump(self.sshare, zone))
        document.settle()
        return document
