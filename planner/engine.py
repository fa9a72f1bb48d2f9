"""Where replays run side by side; `gpuplan.planner.parallel` runs them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt

EngineName = Literal["threads", "processes", "dask", "ray"]
ENGINES: tuple[str, ...] = get_args(EngineName)
CLUSTERS = ("dask", "ray")
"""The engines that can run on other machines."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where scenarios run.

    Attributes:
        name: ``threads`` (the kernels release the GIL, so threads use all cores), ``processes``,
            ``dask`` or ``ray``; the last two start workers on this machine unless there is an
            address.
        workers: scenarios at a time on this machine; None for one per core this process may use.
        address: of a running Dask scheduler or Ray head; its size is the number of workers then.

    Raises:
        UsageError: no such engine, or an address for an engine without one.
    """

    PANEL: ClassVar[str] = "Where it runs"

    name: Annotated[
        EngineName,
        Opt(
            "What runs replays in parallel. dask and ray need an extra: pip install "
            "'gpuplan\\[dask]'. Results are the same.",
            flag="--engine",
            metavar="ENGINE",
        ),
    ] = "threads"
    workers: Annotated[
        int | None,
        Opt(
            "Replays at a time on this machine. Default: one per core. Results are the same.",
            flag="--parallel",
            low=1,
        ),
    ] = None
    address: Annotated[
        str | None,
        Opt(
            "Dask scheduler (tcp://host:8786) or Ray head (host:6379) to use. Default: start "
            "workers on this machine.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UsageError(f"--engine {self.name!r}: expected {', '.join(ENGINES)}")
        if self.address is not None and self.name not in CLUSTERS:
            raise UsageError(f"--address: needs --engine {' or '.join(CLUSTERS)}")


THREADS = Engine()
