"""Tables that come with job logs but hold no jobs: told for what they are, not as unknown files."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.ingest.source import Head


@dataclass(frozen=True, slots=True)
class Other:
    """A kind of table without jobs.

    Attributes:
        what: what it is.
        columns: the columns it is known by.
        jobs: where the jobs are.
    """

    what: str
    columns: tuple[str, ...]
    jobs: str


OPENB_JOBS = "openb_pod_list_default.csv of the same folder"
HELIOS_JOBS = "cluster_log.csv of HeliosData"
ACME_JOBS = "trace_seren.csv or trace_kalos.csv of AcmeTrace"
OTHERS = (
    Other(
        "the list of the nodes of Alibaba openb", ("sn", "cpu_milli", "gpu", "model"), OPENB_JOBS
    ),
    Other(
        "the nodes of Alibaba spot-gpu",
        ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name"),
        "job_info_df.csv of the same folder",
    ),
    Other(
        "GPU demand of Helios over time",
        ("time", "total_gpu_num", "running_gpu_num", "pending_gpu_num"),
        HELIOS_JOBS,
    ),
    Other(
        "the throughputs of Gavel's job types",
        ("worker_type", "job_type", "scale_factor", "steps_per_second"),
        "a .trace file of the same simulator",
    ),
    Other(
        "the cluster of a Tiresias simulation",
        ("num_switch", "num_node_p_switch", "num_gpu_p_node"),
        "a job list such as 60_job.csv",
    ),
    Other("sums per trace", ("id", "job_num", "gpu_job_num", "avg_run_time_gpu"), ACME_JOBS),
    Other("shares of jobs by duration", ("duration_s", "Seren", "Kalos", "Philly"), ACME_JOBS),
    Other("shares of jobs by GPUs", ("quantity", "trace", "gpus", "cdf_percent"), ACME_JOBS),
    Other("sums per cluster", ("id", "gpu_num", "job_num", "avg_run_time_gpu"), HELIOS_JOBS),
)


def other_table(head: Head) -> InputError | None:
    """Return what to raise for a known table without jobs; None for any other file."""
    for other in OTHERS:
        if set(other.columns) <= set(head.columns):
            return InputError(
                head.path,
                f"lists {other.what} (columns {', '.join(other.columns)}); it has no jobs",
                expected="a job log",
                hint=f"ingest {other.jobs}",
            )
    return None
