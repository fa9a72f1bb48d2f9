"""What may be set of the policies that replay queues with quotas."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuplan.analysis.quota.kueue_site import QuotaDocument, read_quota_site
from gpuplan.analysis.quota.objects import COMMAND, files_of
from gpuplan.planner.runs.settings import Setting, SettingError
from gpuplan.simkit.quota.simulator import DEFAULT_GRACE_S

SITE = "site"
FLAVORS = ("recorded", "any")
OF_QUOTA: dict[str, Setting] = {
    SITE: Setting(
        "text",
        "the site's queues (--site): what kubectl prints of Kueue's or KAI's objects, YAML, or a "
        "folder of it",
        unlimited=True,
    ),
    "flavor": Setting(
        "choice",
        "whether jobs keep to flavors of the GPU type that they had, or may run on any",
        FLAVORS,
        default="recorded",
    ),
    "grace_s": Setting(
        "duration",
        "how long an evicted job holds its quota",
        default=float(DEFAULT_GRACE_S),
        at_least=1,
        at_most=86_400,
    ),
    "checkpoint_every_s": Setting(
        "duration",
        "run time between checkpoints; what was done since the last one is lost in an eviction. "
        "none: all is lost",
        optional=True,
        at_least=1,
    ),
}


def has_quotas(settings: Collection[str]) -> bool:
    """Return whether a policy with these settings replays the queues of a site."""
    return SITE in settings


def site_of_settings(policy: str, values: Mapping[str, Any]) -> QuotaDocument:
    """Return the site that the settings name.

    Raises:
        InputError: it cannot be used.
        SettingError: none is given.
    """
    path = values.get(SITE)
    if path is None:
        raise SettingError(
            [SITE],
            f"{policy} replays the queues of a site, and none is given",
            f"--site FILE; {COMMAND}",
            "--site",
        )
    return read_site(Path(path))


def read_site(path: Path) -> QuotaDocument:
    """Return the site in a file or folder; one that was just read is not read again.

    Raises `InputError`.
    """
    files = files_of(path)
    states = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return _read(path, states)


@lru_cache(maxsize=4)
def _read(path: Path, _: tuple[tuple[str, int, int], ...]) -> QuotaDocument:
    return read_quota_site(path)
