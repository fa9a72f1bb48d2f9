"""What the counts of a log's rows say of its columns: times or GPUs that mean something else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from gpuplan.analysis.base.words import counted
from gpuplan.analysis.reading.batch import (
    EARLY,
    FAR_TIMES,
    FEW_GPUS,
    GPU_SHARES,
    MIG_SLICES,
    OTHER_CLUSTERS,
    PENDING,
    SET_BACK,
    WITHOUT_GPUS,
)

MANY_PENDING = 0.01
"""Share of the jobs of a trace from which those that wait change what it says."""


def log_warnings(counts: Mapping[str, int], waits: int, kept: int, pending: int = 0) -> list[str]:
    """Return what makes a trace doubtful, one sentence each.

    Args:
        counts: rows by what was noted of them.
        waits: jobs with a wait.
        kept: jobs of the trace.
        pending: pods or workloads that had not started when the log was taken, left out.
    """
    warnings: list[str] = []
    early, few = counts[EARLY], counts[FEW_GPUS]
    if early > waits:
        warnings.append(
            f"{early:,} of {early + waits:,} jobs with a start have it before their "
            "submission, so most waits are lost\n  next: look whether the times of submission "
            "and start are of one zone, and from the same columns as in the log's description"
        )
    if set_back := counts[SET_BACK]:
        warnings.append(
            f"{counted(set_back, 'job')} ran an hour longer than from start to end: the times "
            "are local and the clock was set back, so GPUs seem held for an hour too long\n"
            "  next: --time-zone NAME, such as America/New_York"
        )
    if pending > MANY_PENDING * kept:
        who = (
            "1 pod or workload still waits for its first start and is"
            if pending == 1
            else f"{pending:,} pods or workloads still wait for their first start and are"
        )
        warnings.append(f"{who} left out: demand and waits are more than the numbers say")
    if far := counts[FAR_TIMES]:
        have = "has" if far == 1 else "have"
        warnings.append(
            f"{counted(far, 'job')} {have} times over a year from those of the other "
            f"{kept - far:,}: loads and means of the whole time follow from them\n  next: if a "
            "clock was wrong, leave them out: --where \"submit_time >= 'DATE'\""
        )
    if few:
        warnings.append(
            f"{few:,} of {counted(kept, 'job')} have fewer GPUs than workers; num_gpus is "
            "the total of all workers of a job\n  next: if the column counts the GPUs of one "
            "worker, --map num_gpus='GPUS * WORKERS'"
        )
    warnings += _of_slurm(counts, kept)
    return warnings


def _of_slurm(counts: Mapping[str, int], kept: int) -> Iterator[str]:
    """Yield what makes the GPUs of a log of Slurm mean something else."""
    if other := counts[OTHER_CLUSTERS]:
        yield (
            f"the log is of several clusters ({other:,} of {counted(kept, 'job')} are of others "
            "than the first row), and counts as one: free GPUs, waits for them and sizes are those "
            "of no cluster\n  next: a log of each cluster alone: sacct -M NAME"
        )
    if shares := counts[GPU_SHARES]:
        yield (
            f"{counted(shares, 'job')} {'holds' if shares == 1 else 'hold'} shares of GPUs "
            "(gres/shard, gres/mps or the like) and count as CPU jobs: load, GPU-hours and dollars "
            "leave them out"
        )
    if slices := counts[MIG_SLICES]:
        yield (
            f"{counted(slices, 'job')} {'runs' if slices == 1 else 'run'} on MIG slices, which "
            "Slurm counts as GPUs: GPU-hours, prices and sizes of these types are of slices"
        )


def empty_log_hint(path: Path, left_out: Collection[str]) -> str:
    """Return what to do where all of a source is left out, for these reasons."""
    if WITHOUT_GPUS in left_out:
        return (
            "where GPUs have a name of their own: "
            f"gpuplan ingest {path} --gpu-resource NAME -o trace.parquet"
        )
    if PENDING in left_out:
        return "none of them has run yet: export the log again when some have"
    return "export the log again, without the filter that leaves nothing"
