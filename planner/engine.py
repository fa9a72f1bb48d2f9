"""Run independent scenarios in parallel; the results do not depend on how many at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from joblib import Parallel, delayed

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Result]:
    """Return ``[function(item) for item in items]``, computed by threads.

    The kernels release the GIL, so threads use all cores and share the workload's arrays.

    Args:
        function: depends on its argument alone.
        items: the scenarios.
        workers: threads; None takes one per core this process may use.
        progress: called with the share done after each scenario.
    """
    threads = min(workers or usable_cores(), len(items)) or 1
    running = Parallel(n_jobs=threads, prefer="threads", return_as="generator")(
        delayed(function)(item) for item in items
    )
    results: list[Result] = []
    for result in running:
        results.append(result)
        if progress is not None:
            progress(len(results) / len(items))
    return results


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
