"""Read changes of a site as people write them: ``limit user=32``, ``add-nodes a100=4``.

``gpuplan whatif`` has an option for each; ``gpuplan options`` takes them as texts.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.site.slurm_conf import included_files, read_slurm_conf
from gpuplan.planner.twin.job_changes import (
    CONTINUE,
    burst,
    limits_run,
    max_time,
    move,
    scale_limits,
    scale_load,
)
from gpuplan.planner.twin.limit_changes import limit
from gpuplan.planner.twin.node_changes import add_nodes, remove_nodes, reserve
from gpuplan.planner.twin.site_changes import SiteChange, combined, new_settings, set_value

SLURM_CONF, MAX_TIME, LONG, BURST = "slurm-conf", "max-time", "long-jobs", "burst"


def _number(change: Callable[[float], SiteChange], name: str) -> Callable[[str], SiteChange]:
    def read(text: str) -> SiteChange:
        try:
            return change(float(text))
        except ValueError:
            raise UsageError(f"--{name} must be a number, got {text!r}") from None

    return read


def _conf(text: str) -> SiteChange:
    path = Path(text)
    return new_settings(path.name, read_slurm_conf(path))


READERS: dict[str, Callable[[str], SiteChange]] = {
    "add-nodes": add_nodes,
    "remove-nodes": remove_nodes,
    "set": set_value,
    SLURM_CONF: _conf,
    "limit": limit,
    MAX_TIME: max_time,
    "move": move,
    "limits-run": _number(limits_run, "limits-run"),
    "reserve": reserve,
    "scale-load": _number(scale_load, "scale-load"),
    "limits-times": _number(scale_limits, "limits-times"),
    BURST: burst,
}
"""Name of a change -> what reads its value. All but `BURST` are options of ``gpuplan whatif``."""


def read_change(name: str, value: str, long_jobs: str = CONTINUE) -> SiteChange:
    """Return a change of `READERS`. Raises `UsageError` or `InputError`."""
    if name == MAX_TIME:
        return max_time(value, long_jobs)
    return READERS[name](value)


def read_option(text: str) -> SiteChange:
    """Return the change of a text such as ``limit user=32 add-nodes a100=4``: all at once.

    Each is a name and a value, as options of ``gpuplan whatif``, with or without ``--``. The
    change has the text as its name.

    Raises:
        UsageError: the text is not written so, or a change cannot be read.
        InputError: a file cannot be read.
    """
    pairs = list(_pairs(text))
    long_jobs = next((value for name, value in pairs if name == LONG), CONTINUE)
    changes = [read_change(name, value, long_jobs) for name, value in pairs if name != LONG]
    if not changes:
        raise _unreadable(text, "it has no change")
    if len(changes) == 1:
        return changes[0]
    return combined(changes)


def conf_files(text: str) -> Iterator[Path]:
    """Yield the files of a text that `read_option` reads, those that a slurm.conf includes too."""
    for name, value in _pairs(text):
        if name == SLURM_CONF:
            yield from included_files(Path(value))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values."""
    try:
        words = [word for word in shlex.split(text) if word != "+"]
    except ValueError as error:
        raise _unreadable(text, f"{error}".lower()) from None
    while words:
        name, equals, value = words.pop(0).removeprefix("--").partition("=")
        if name not in READERS and name != LONG:
            raise _unreadable(text, f"no change is called {name}{perhaps(name, READERS)}")
        if not equals:
            value = words.pop(0) if words else ""
        if name == BURST and value == "over":
            value = f"over {words.pop(0)}" if words else ""
        if not value:
            raise _unreadable(text, f"{name} has no value")
        yield name, value


def _unreadable(text: str, why: str) -> UsageError:
    return UsageError(
        f"--option {text!r}: {why}; expected one of {', '.join(READERS)} with its value\n"
        "  next: for example --option 'limit user=32' or --option 'burst over 12h'"
    )
