"""Logs of sacct with requeued jobs, for tests: rows by the second after a day begins."""

from datetime import UTC, datetime, timedelta

from gpuplan.analysis.ingest.ingest import ingest

H = 3600
HEADER = "JobID|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES"
DAY = datetime(2026, 1, 5, tzinfo=UTC)


def at(second):
    return (DAY + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")


def row(job, submit, start, end, gpus, state="COMPLETED", group="lab"):
    ends = "Unknown" if end is None else at(end)
    ran = (86_400 if end is None else end) - start
    return (
        f"{job}|ana|{group}|gpu|{state}|{at(submit)}|{at(start)}|{ends}|{ran}|1|"
        f"gres/gpu:a100={gpus},gres/gpu={gpus}"
    )


def trace_of(folder, rows):
    log = folder / "s.txt"
    log.write_text("\n".join([HEADER, *rows]) + "\n")
    ingest([log], folder / "s.parquet")
    return folder / "s.parquet"
