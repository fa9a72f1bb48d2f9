"""What ``gpuplan ingest`` is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.job_table.log_options import LogOptions, mapping_texts
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.trace import table_and_rejects, table_file


def metric_files(texts: Sequence[str], flag: str = "--metric") -> dict[str, str]:
    """Return metric -> file. Raises `UsageError`."""
    files: dict[str, str] = {}
    for text in texts:
        name, equals, file = (part.strip() for part in text.partition("="))
        if not (equals and name and file):
            raise UsageError(f"{flag} {text}: must be NAME=FILE, as kube_pod_created=created.json")
        if name in files:
            raise UsageError(f"{flag} {text}: {name} is already in {files[name]}")
        files[name] = file
    return files


@study(
    "ingest",
    example="gpuplan ingest trace_seren.csv -o seren.parquet",
    doing="reading",
    has_picture=False,
    has_rows=False,
)
@dataclass(frozen=True, slots=True)
class IngestRequest(StudyRequest):
    """Read a job log into a trace, and account for every row.

    Attributes:
        output: the trace to write; its name ends in ``.parquet``.
        log: how to read them.
    """

    PANEL: ClassVar[str] = LogOptions.PANEL

    sources: Annotated[
        tuple[Path, ...],
        Opt(
            "Job logs: CSV, JSON, JSON lines or Parquet, plain, .gz, .zst, .zip or .tar, folders "
            "of them, or - for standard input. Several are joined in this order; other files in a "
            "folder or archive are left out and listed.",
            key=None,
            metavar="SRC",
            many=True,
            argument=True,
        ),
    ]
    output: Annotated[
        Path,
        table_file(
            "Trace to write (.parquet). Unusable rows go to <name>.rejects.parquet next to it."
        ),
    ]
    throughputs: Annotated[
        Path | None,
        Opt(
            "Steps per second of each job type, to turn the steps of a Gavel trace into durations: "
            "a CSV of worker_type, job_type, scale_factor, steps_per_second, or Gavel's JSON; "
            "plain, .gz, or .zst.",
            metavar="FILE",
        ),
    ] = None
    worker_type: Annotated[
        str | None,
        Opt("Worker type in --throughputs that jobs run on, such as v100.", metavar="NAME"),
    ] = None
    duration: Annotated[
        Literal["computed", "source"],
        Opt(
            "Durations of seren, kalos, and helios logs: computed (end - start), or source (the "
            "log's own seconds, to reproduce published numbers)."
        ),
    ] = "computed"
    twin: Annotated[
        bool | None,
        Opt(
            "Keep the scheduler's fields: limits, partitions, QOS, eligible times, reasons, nodes "
            "and more. Slurm and SWF logs keep them by default; --twin also says what is missing "
            "for [bold]gpuplan calibrate[/bold].",
            flag="--twin/--no-twin",
        ),
    ] = None
    gpu_resource: Annotated[
        tuple[str, ...],
        Opt(
            "Kubernetes: a resource that is a GPU besides those of NVIDIA, AMD, Intel and Habana, "
            "such as google.com/tpu. May be repeated.",
            metavar="NAME",
            many=True,
        ),
    ] = ()
    user_label: Annotated[
        str | None,
        Opt("Kubernetes: label or annotation of pods that names the user.", metavar="KEY"),
    ] = None
    node_types: Annotated[
        Path | None,
        Opt(
            'Kubernetes: GPU type of nodes, JSON {"node": "type"}, where metrics have no labels.',
            metavar="FILE",
        ),
    ] = None
    include_cpu: Annotated[
        bool, Opt("Kubernetes: keep pods and workloads without GPUs, with 0 GPUs.")
    ] = False
    gang: Annotated[
        Literal["job", "pod"] | None,
        Opt(
            "Kubernetes: pods of a plain Job are one job, or one job each. Default: as the Job "
            "says, in metrics as their times say."
        ),
    ] = None
    metric: Annotated[
        Mapping[str, str],
        Opt(
            "Kubernetes: metric of a file whose series have no name, such as "
            "kube_pod_created=created.json. May be repeated.",
            parse=metric_files,
            write=mapping_texts,
            metavar="NAME=FILE",
            many=True,
        ),
    ] = field(default_factory=dict)
    log: Annotated[
        LogOptions,
        Group(common=("source_format", "columns", "time_zone", "max_rejects")),
    ] = field(default_factory=LogOptions)

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads beside the sources, which may be standard input."""
        return tuple(file for file in (self.throughputs, self.node_types) if file is not None)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes."""
        return table_and_rejects(self.output)
