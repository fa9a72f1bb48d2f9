"""The site of a dump of Kueue: in the dump itself, or in a file beside it."""

from __future__ import annotations

from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.kubernetes.heads import refuse_other_objects
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.objects import COMMAND
from gpuplan.analysis.quota.workloads import (
    KueueLog,
    is_kueue_dump,
    read_kueue_log,
)
from gpuplan.analysis.site.log import refuse_trace_of_dump, trace_provenance
from gpuplan.analysis.storage.files import existing_file, is_parquet
from gpuplan.planner.policies.quota_sites import read_site


def dump_of(path: Path) -> KueueLog:
    """Return the dump of Kueue of a file.

    Raises:
        InputError: it cannot be read, or is no dump; of a trace that was made of one the message
            names the dump.
    """
    if not is_kueue_dump(existing_file(path)):
        if is_parquet(path):
            refuse_trace_of_dump(path, trace_provenance(path))
        refuse_other_objects(path)
        raise InputError(
            path, "is no dump of Kueue", expected="Workloads of the site of --twin", hint=COMMAND
        )
    return read_kueue_log(path)


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
