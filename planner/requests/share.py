"""What ``gpuplan share`` is asked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpuplan.analysis.base.amounts import check_finite, parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.job_table.log_options import LogOptions, each_once, mapping
from gpuplan.analysis.user_tables.sharing_functions import read_functions, services_of
from gpuplan.planner.requests.clusters import METAVAR, ClusterRequest, read_size
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.settings import FLAGS, check_once

if TYPE_CHECKING:
    from gpuplan.analysis.user_tables.sharing_functions import SharedFunction
    from gpuplan.simkit.sharing.policies import PlacementSettings

PLACED = ("dilu", "exclusive", "infless-l", "infless-r", "fast-gs")
UNDER_LOAD = (*PLACED, "infless", "mps-l", "mps-r")
SETTINGS = ("gamma", "omega", "alpha", "beta", "memory_gb", "tie_break", "split", "affinity")
MOST_GAMMAS = 50
DEFAULT_CLUSTER = "1000x4"
LOADED, PLACING = "Services under load", "Placement"
NEITHER = (
    "share: give INSTANCES to place, or --functions with --load\n"
    "  next: gpuplan share instances.csv, or gpuplan share --functions functions.toml "
    "--load rates.txt"
)


def read_gammas(text: str, flag: str) -> tuple[float, ...]:
    """Return the values of ``1.5``, ``1,1.5,2`` or ``1:2.5:0.1``. Raises `UsageError`."""
    for part in re.split("[:,]", text):
        check_finite(part, flag)
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            if not (0 < step and first <= last and math.isfinite(last)):
                raise ValueError
            count = int((last - first) / step + 1e-9) + 1
            if count > MOST_GAMMAS:
                raise UsageError(f"{flag} {text}: {count} values; expected at most {MOST_GAMMAS}")
            gammas = [round(first + at * step, 12) for at in range(count)]
        else:
            gammas = [float(part) for part in text.split(",")]
    except ValueError:
        gammas = [math.nan]
    if not all(0 < gamma < 1e6 for gamma in gammas):
        raise UsageError(f"{flag} {shortened(text)!r}: expected 1.5, 1,1.5,2 or 1:2.5:0.1")
    return tuple(dict.fromkeys(gammas))


def read_placement(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """Return the settings of placement in ``key=value`` texts. Raises `UsageError`."""
    check_once(texts)
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or key not in SETTINGS:
            raise UsageError(
                f"{flag} {text!r}: expected one of {', '.join(SETTINGS)}, as in gamma=2"
            )
        if key == "tie_break":
            if value not in ("id", "reference"):
                raise UsageError(f"{flag} {text!r}: expected id or reference")
            values["reference"] = value == "reference"
        elif key in ("split", "affinity"):
            if value.lower() not in FLAGS:
                raise UsageError(f"{flag} {text!r}: expected yes or no")
            values[key] = FLAGS[value.lower()]
        else:
            least = 0.0 if key in ("alpha", "beta") else 1e-6
            check_finite(value, f"{flag} {key}")
            try:
                values[key] = float(value)
            except ValueError:
                values[key] = math.nan
            if not least <= values[key] < 1e6:
                raise UsageError(f"{flag} {text!r}: expected a number of at least {least:g}")
    return values


def read_times(texts: Sequence[str], flag: str) -> tuple[float, ...]:
    """Return durations in seconds, each once. Raises `UsageError`."""
    return tuple(dict.fromkeys(parse_duration(text, flag) for text in texts))


def read_length(text: str, flag: str) -> float:
    """Return a duration above 0 in seconds. Raises `UsageError`."""
    seconds = parse_duration(text, flag)
    if not seconds > 0:
        raise UsageError(f"{flag} {text!r}: expected a time above 0")
    return seconds


@dataclass(frozen=True, slots=True)
class SharedCluster(ClusterRequest):
    """The GPUs that are shared, all of one type.

    Attributes:
        cluster: nodes and the GPUs of each; None for `DEFAULT_CLUSTER`.
        gpus: their number, without nodes.
    """

    cluster: Annotated[
        str | None,
        Opt(
            f"Nodes x GPUs per node, as in 100x4 or A100=100x4. Default: {DEFAULT_CLUSTER}.",
            metavar=METAVAR,
            common=True,
        ),
    ] = None

    def nodes(self) -> tuple[str, int, int]:
        """Return the cluster as text, its nodes, and the GPUs of each. Raises `UsageError`."""
        size = self.size() or read_size(DEFAULT_CLUSTER)
        if len(size.shape.pools) > 1:
            raise UsageError(f"{size.option}: expected GPUs of one type, as in A100=1000x4")
        pool = size.shape.pool
        if pool.gpus is None:
            raise UsageError(f"{size.option}: expected the number of nodes, as in 1000x4")
        nodes = pool.nodes or 1
        return str(size.shape), nodes, pool.gpus // nodes


@study(
    "share",
    title="GPUs shared",
    picture="GPUs in use",
    example="gpuplan share --load bursty.txt --functions functions.toml --policy dilu",
    doing="sharing",
    compiles=True,
    has_rows=False,
    instead_of_trace="functions",
)
@dataclass(frozen=True, slots=True)
class ShareRequest(StudyRequest):
    """Show how many GPUs you need if jobs share cards.

    Attributes:
        cluster: the GPUs that are shared.
    """

    trace: Annotated[
        Path | None,
        Opt(
            "Instances that start and end (Dilu's events, CSV, TOML), or a job log or trace with "
            "fractions of GPUs. Not with --load.",
            metavar="INSTANCES",
            argument=True,
        ),
    ] = None
    cluster: SharedCluster = field(default_factory=SharedCluster)
    policies: Annotated[
        tuple[str, ...],
        Opt(
            f"{', '.join(PLACED)}; with --load also infless, mps-l and mps-r. May be repeated. "
            "Default: dilu and exclusive.",
            flag="--policy",
            parse=each_once,
            metavar="NAME",
            common=True,
            many=True,
            complete=UNDER_LOAD,
        ),
    ] = ("dilu", "exclusive")
    values: Annotated[
        Mapping[str, Any],
        Opt(
            "key=value: omega (1), maximum sum of the requests on a GPU; alpha (0.6) and beta "
            "(0.4), weights of free SMs and memory; memory_gb (40) of a GPU; split and affinity "
            "(yes); tie_break (id, or reference as in the authors' simulation). May be repeated.",
            flag="--set",
            parse=read_placement,
            many=True,
        ),
    ] = field(default_factory=dict)
    names: Annotated[
        Mapping[str, str],
        Opt(
            "Take a column of the instances, or of a job log, from this column of the file, for "
            "example request=sm_share; may be repeated.",
            flag="--map",
            parse=mapping,
            metavar="OURS=THEIRS",
            panel=LogOptions.PANEL,
            many=True,
        ),
    ] = field(default_factory=dict)
    gammas: Annotated[
        tuple[float, ...],
        Opt(
            "Maximum sum of the limits on a GPU: 1.5, or several as 1,1.5,2 or 1:2.5:0.1. "
            "Default: 1.5.",
            flag="--gamma",
            parse=read_gammas,
            common=True,
        ),
    ] = ()
    usd_per_gpu_h: Annotated[
        float | None,
        Opt(
            "Dollars per GPU-hour; adds the savings per month.",
            flag="--price",
            panel=PLACING,
            common=True,
            low=0.0,
        ),
    ] = None
    load: Annotated[
        tuple[str, ...],
        Opt(
            "Requests of the services: a file of requests per second, a request log, "
            "poisson:RATE, gamma:RATE:CV (of gaps), gamma-rate:RATE:CV, bursty:RATE:FACTOR or "
            "periodic:RATE:PERIOD_S; NAME=... for one service. May be repeated.",
            metavar="[NAME=]LOAD",
            panel=LOADED,
            common=True,
            many=True,
            reads=True,
        ),
    ] = ()
    functions: Annotated[
        Path | None,
        Opt(
            "The services and training jobs (.toml), as gpuplan profile -o writes them.",
            panel=LOADED,
            common=True,
        ),
    ] = None
    multiplier: Annotated[float, Opt("Factor on requests per second.", low=1e-6, panel=LOADED)] = (
        1.0
    )
    capacity_rps: Annotated[
        float | None,
        Opt(
            "Requests per second that one instance is registered to serve. Default: its "
            "throughput at its request.",
            flag="--capacity",
            panel=LOADED,
            low=1e-6,
        ),
    ] = None
    cold_starts_s: Annotated[
        tuple[float, ...],
        Opt(
            "Time until a new instance is ready; may be repeated. The main result has the first. "
            "Default: 10s and 30s.",
            flag="--cold-start",
            parse=read_times,
            metavar="TIME",
            panel=LOADED,
            common=True,
            many=True,
        ),
    ] = ()
    horizon_s: Annotated[
        float | None,
        Opt(
            "Length of the run. Default: that of the longest load file, or 10 minutes.",
            flag="--horizon",
            parse=read_length,
            metavar="TIME",
            panel=LOADED,
        ),
    ] = None
    no_frontier: Annotated[
        bool,
        Opt(
            "Skip the frontier over gamma and registered capacity.",
            flag="--no-frontier",
            panel=LOADED,
        ),
    ] = False
    seed: Annotated[int, Opt("Seed of sampled requests.", low=0, panel=LOADED)] = 0

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that the functions name."""
        if self.functions is None or not self.functions.is_file():
            return (self.trace, self.functions, *self.load)
        functions, folder = self.read_functions(), self.functions.parent
        profiles = [function.profile for function in functions]
        loads = [folder / function.load for function in functions if function.load is not None]
        return (self.functions, *profiles, *loads, *self.load)

    def read_functions(self) -> list[SharedFunction]:
        """Return the functions; none of instances. Raises `InputError`."""
        return [] if self.functions is None else read_functions(self.functions)

    def settings(self) -> PlacementSettings:
        """Return the settings of placement."""
        from gpuplan.simkit.sharing.policies import PlacementSettings

        gamma = {} if self.functions is None or not self.gammas else {"gamma": self.gammas[0]}
        return PlacementSettings(**{**self.values, **gamma})

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        if (self.trace is None) == (self.functions is None):
            raise UsageError(NEITHER)
        self.cluster.nodes()
        names = dict.fromkeys(PLACED if self.functions is None else UNDER_LOAD, "")
        for name in self.policies:
            find_named(name, names, "--policy", "policy")
        if self.gammas and "gamma" in self.values:
            gammas = ",".join(f"{gamma:g}" for gamma in self.gammas)
            raise UsageError(
                f"--gamma {gammas} and --set gamma={self.values['gamma']:g}: give one of the two"
            )
        if self.functions is None:
            self._check_instances()
        else:
            self._check_services(self.functions.parent)

    def _check_instances(self) -> None:
        """Raise `UsageError` for what only services under load take."""
        options = {
            "--load": self.load, "--capacity": self.capacity_rps,
            "--cold-start": self.cold_starts_s,
        }  # fmt: skip
        wrong = next((flag for flag, value in options.items() if value not in (None, ())), None)
        if wrong is not None:
            raise UsageError(f"{wrong}: needs --functions, not instances")

    def _check_services(self, folder: Path) -> None:
        """Raise `UsageError` for what only instances take, or a load that cannot be."""
        from gpuplan.planner.sharing.loads import Loads

        if self.usd_per_gpu_h is not None:
            raise UsageError("--price: applies to INSTANCES only")
        if self.names:
            raise UsageError("--map: applies to INSTANCES only")
        if len(self.gammas) > 1:
            raise UsageError("--gamma: one value with --functions; the frontier varies it")
        if self.values.get("reference"):
            raise UsageError("--set tie_break=reference: applies to INSTANCES, not to --functions")
        services = services_of(self.read_functions())
        loads = Loads(self.load, self.multiplier, self.seed)
        loads.check({service.name: service.load for service in services})
        for service in services:
            loads.process(loads.spec(service.name, service.load, folder))
