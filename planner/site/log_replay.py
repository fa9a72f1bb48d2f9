"""Today replayed from a log: first-fit on its cluster, or on the most GPUs held at once.

It judges studies whose model has no cluster and no policy of its own (spec: may a model speak).
"""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.characterize.capacity import NODES
from gpuplan.analysis.characterize.today import COLUMNS as TODAY_COLUMNS
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.kubernetes.heads import LOG_FORMATS
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waits.spells import REASON, limit_share
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.trace_jobs import COLUMNS as REPLAYED
from gpuplan.planner.site.fidelity import (
    NO_WAITS,
    Fidelity,
    named_for,
    unknown,
    why_not_today,
    without_limits,
)
from gpuplan.planner.site.pool_replays import fidelity_of_pools
from gpuplan.planner.sizing.pools import PoolTerms, pools_of
from gpuplan.simkit.cluster_shape import ClusterShape

TODAYS_POLICY = "first-fit"
COLUMNS = tuple(dict.fromkeys((*TODAY_COLUMNS, *REPLAYED)))
"""Canonical columns that `todays_fidelity` reads."""
WHERE_KNOWN = (NODES, REASON)
"""Columns that say how many GPUs there are, and which limits make jobs wait, where a log has them.
"""


def todays_fidelity(
    trace: Trace,
    selection: Selection,
    now: Today | None,
    shape: ClusterShape | None = None,
    policy: str = TODAYS_POLICY,
) -> Fidelity:
    """Return how a replay of today compares with the waits of a log.

    Args:
        trace: with `COLUMNS`.
        selection: which jobs of the log these are, and how they are scaled.
        now: what the log shows; None where no job of it holds GPUs.
        shape: today's cluster; None for the most GPUs held at once.
        policy: of its queue.
    """
    if why := why_not_today(selection, trace.provenance):
        return unknown(why)
    if now is None or now.mean_wait_s is None:
        return unknown(NO_WAITS)
    terms = PoolTerms(None, shape, 0.0, "given", None, False, selection.seed)
    try:
        pools, seen = pools_of(trace, terms)
    except InputError:  # all its jobs still run, say
        return unknown("no job can be replayed")
    _, draws = np.random.default_rng(selection.seed).spawn(2)  # as every replay draws
    is_part = selection.where is not None
    spec = PolicySpec(policy, policy, {})
    fidelity, _ = fidelity_of_pools(pools, seen, spec, draws, is_part=is_part)
    limited = limit_share(trace.submitted().jobs)
    has_partitions = trace.provenance.source_format not in LOG_FORMATS
    return named_for(without_limits(fidelity, limited), has_partitions=has_partitions)
