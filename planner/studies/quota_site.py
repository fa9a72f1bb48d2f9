"""The site of a dump of Kueue: in the dump itself, or in a file beside it."""

from __future__ import annotations

from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.objects import COMMAND
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.planner.policies.quota_settings import read_site


def site_of_log(log: KueueLog, path: Path | None) -> QuotaDocument:
    """Return the site of a dump; that of a file where one is given.

    Raises:
        InputError: the file cannot be used, or neither has queues.
    """
    if path is not None:
        return read_site(path)
    if log.site is None:
        raise InputError(
            log.path,
            "has Workloads and no ClusterQueue",
            expected="the queues in the same dump, or in --site FILE",
            hint=COMMAND,
        )
    return log.site
