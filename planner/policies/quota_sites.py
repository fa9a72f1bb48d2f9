"""Read the site whose queues a policy replays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuplan.analysis.quota.kueue_site import QuotaDocument, read_quota_site
from gpuplan.analysis.quota.objects import COMMAND, files_of
from gpuplan.planner.policies.quota_settings import SITE
from gpuplan.planner.runs.settings import SettingError


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
