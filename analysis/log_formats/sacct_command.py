"""The one ``sacct`` command that messages and pages show, and the columns that jobs need of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuplan.analysis.base.errors import InputError

SACCT_FIELDS = (
    "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End",
    "ElapsedRaw", "Timelimit", "ReqNodes", "NNodes", "ReqTRES", "AllocTRES", "Priority", "Reason",
    "Flags", "Reservation", "NodeList", "AdminComment", "SubmitLine",
)  # fmt: skip
"""Fields of the command. AdminComment has the summaries of jobstats, where a site has these;
SubmitLine is the last, since it may hold the separator."""

FREE_TEXT = (
    "jobname", "submitline", "comment", "admincomment", "systemcomment", "workdir", "extra",
    "constraints", "container",
)  # fmt: skip
"""Fields that users write, so that they may hold the separator; in lower case."""

SACCT_COMMAND = (
    f"sacct -a -X -P -D --noconvert -S now-90days --format={','.join(SACCT_FIELDS)} > sacct.txt"
)
"""All users, jobs without steps, a row per run of a requeued job, of the last 90 days."""

IDS = ("jobid", "jobidraw")
SUBMITS = ("submit", "eligible", "start")
RESOURCES = ("alloctres", "allocgres", "reqtres", "reqgres")
Needed = tuple[str, tuple[tuple[str, ...], ...]]
NEEDED: tuple[Needed, ...] = (
    ("job ids", tuple((name,) for name in IDS)),
    ("submissions", tuple((name,) for name in SUBMITS)),
    ("run times", (("elapsedraw",), ("elapsed",), ("start", "end"))),
    ("GPUs", tuple((name,) for name in RESOURCES)),
)
"""What jobs need -> the sets of columns of which one tells it."""
SPELLED = {
    name.lower(): name
    for name in (
        *SACCT_FIELDS, "JobIDRaw", "Elapsed", "AllocGRES", "ReqGRES", "JobName", "ExitCode",
        "TimelimitRaw", "Group", "Cluster", "NCPUS", "AllocCPUS", "AllocNodes", "UID",
    )
}  # fmt: skip
"""Column in lower case -> as Slurm writes it."""


def refuse_missing(path: Path, columns: Sequence[str], needed: Sequence[Needed] = NEEDED) -> None:
    """Refuse a log without what jobs need.

    Args:
        path: the log.
        columns: its columns, in lower case.
        needed: what jobs need; one of several sets of columns will do.

    Raises:
        InputError: names what is missing, the columns that tell it, and the command.
    """
    missing = [
        f"{what} ({', or '.join(' and '.join(map(spelled, names)) for names in sets)})"
        for what, sets in needed
        if not any(set(names) <= set(columns) for names in sets)
    ]
    if missing:
        raise InputError(
            path,
            f"has no column with {'; nor with '.join(missing)}; it has "
            f"{', '.join(map(spelled, columns[:12]))}",
            expected="sacct output with these columns",
            hint=SACCT_COMMAND,
        )


def spelled(column: str) -> str:
    """Return the name of a column as Slurm writes it."""
    return SPELLED.get(column, column)
