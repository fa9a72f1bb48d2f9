"""Run independent scenarios in parallel; the results depend neither on the engine nor on how many.

Every engine is a backend of joblib, so that one loop serves all. Data shared by the scenarios is
sent to a worker once: threads have it, processes map its arrays from one file in memory, a Dask
cluster is given it before the first scenario, Ray's workers take it from their object store.
"""

from __future__ import annotations

import copy
import importlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.simkit.watch import stop_all

Item = TypeVar("Item")
Result = TypeVar("Result")

MAPPED = "100K"
"""Arrays of more bytes are mapped by processes instead of sent with every scenario."""
CONNECT_S = 10
MOST_BYTES = 2_000_000_000
"""Scenarios at a time take at most this much, unless the user says how many may run."""


def run_all(
    function: Callable[..., Result],
    items: Sequence[Item],
    *,
    shared: tuple[Any, ...] = (),
    engine: Engine = THREADS,
    progress: Callable[[float], None] | None = None,
    results: list[Result] | None = None,
    bytes_each: int = 0,
) -> list[Result]:
    """Return ``[function(item, *shared) for item in items]``.

    Args:
        function: depends on its arguments alone and leaves them as they are; of a module, unless
            the engine is ``threads``.
        items: the scenarios, small; their order is that of the results.
        shared: data common to all, such as the arrays of a workload.
        engine: where they run.
        progress: called with the share done after each scenario.
        results: a list to fill, which holds what is done if an interrupt ends the run.
        bytes_each: about what a scenario takes, so that fewer run at a time where that is much.

    Raises:
        UsageError: the engine is not installed or cannot be reached.
    """
    results = [] if results is None else results
    if not items:
        return results
    if engine.workers is None and engine.address is None and bytes_each:
        engine = replace(engine, workers=max(1, min(usable_cores(), MOST_BYTES // bytes_each)))
    with _backend(engine, len(items), shared) as (settings, call):
        try:
            for result in Parallel(**settings)(call(function, item) for item in items):
                results.append(result)
                if progress is not None:
                    progress(len(results) / len(items))
        except BaseException:
            stop_all()  # the other kernels, which nobody waits for
            raise
    return results


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _backend(
    engine: Engine, items: int, shared: tuple[Any, ...]
) -> Iterator[tuple[dict[str, Any], Callable[..., Any]]]:
    """Yield the arguments of `Parallel`, and what makes a call from a function and an item."""
    workers = min(engine.workers or usable_cores(), items)
    one_by_one = {"return_as": "generator"}  # to report progress; Ray returns all at the end

    def here(function: Callable[..., Any], item: Any) -> Any:
        return delayed(_call)(function, item, shared)

    match engine.name:
        case "threads":
            yield one_by_one | {"n_jobs": workers, "backend": "threading"}, here
        case "processes":
            # Mapped copy-on-write ("c"), as numba compiles again for arrays that are read-only.
            mapped = {"mmap_mode": "c", "max_nbytes": MAPPED}
            yield one_by_one | mapped | {"n_jobs": workers, "backend": "loky"}, here
        case "dask":
            with (
                _dask_client(engine, workers) as client,
                parallel_config("dask", client=client, scatter=[shared]),
            ):
                yield one_by_one, here
        case _:
            with _ray(engine, workers) as (ray, n_jobs):
                reference = ray.put(shared)
                yield (
                    {"n_jobs": n_jobs, "backend": "ray"},
                    lambda function, item: delayed(_call_in_ray)(function, item, reference),
                )


def _call(function: Callable[..., Result], item: Any, shared: tuple[Any, ...]) -> Result:
    return function(item, *shared)


def _call_in_ray(function: Callable[..., Result], item: Any, reference: Any) -> Result:
    return function(item, *_from_ray(reference))


@lru_cache(maxsize=1)
def _from_ray(reference: Any) -> Any:
    """Return a copy of an object in the store, once per worker: the original is read-only."""
    return copy.deepcopy(importlib.import_module("ray").get(reference))


@contextmanager
def _dask_client(engine: Engine, workers: int) -> Iterator[Any]:
    distributed = _installed("distributed", "dask")
    if engine.address is None:
        with (
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.ERROR,
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(engine.address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _unreachable(engine, error) from error
    with client:
        if not client.ncores():
            raise UsageError(f"--address {engine.address}: this Dask cluster has no workers")
        _check_versions(engine, lambda: client.run(_version).values())
        yield client


@contextmanager
def _ray(engine: Engine, workers: int) -> Iterator[tuple[Any, int]]:
    ray = _installed("ray", "ray")
    local = {"num_cpus": workers, "include_dashboard": False}
    where = {"address": engine.address} if engine.address else local
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(engine, error) from error
    try:
        _installed("ray.util.joblib", "ray").register_ray()
        if engine.address:
            _check_versions(engine, lambda: [ray.get(ray.remote(_version).remote())])
        yield ray, -1 if engine.address else workers
    finally:
        ray.shutdown()


def _version() -> str:
    """Return the version of gpuplan where this runs."""
    return version("gpuplan")


def _check_versions(engine: Engine, ask: Callable[[], Any]) -> None:
    """Refuse a cluster without gpuplan, or with one that may compute something else."""
    try:
        versions = sorted(set(ask()) - {_version()})
    except ImportError as error:
        raise UsageError(
            f"--address {engine.address}: its workers cannot import {error.name}\n  next: install "
            f"gpuplan {_version()} there"
        ) from error
    if versions:
        raise UsageError(
            f"--address {engine.address}: its workers have gpuplan {', '.join(versions)}, this is "
            f"{_version()}"
        )


def _installed(module: str, extra: str) -> Any:
    """Import a module of an extra. Raises `UsageError` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"--engine {extra}: {error.name} is not installed\n  next: pip install "
            f"'gpuplan[{extra}]', or --engine threads"
        ) from error


def _unreachable(engine: Engine, error: Exception) -> UsageError:
    why = str(error).partition("\n")[0]
    return UsageError(f"--address {engine.address}: no {engine.name} cluster answers there: {why}")
