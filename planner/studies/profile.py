"""Choose batch size and share of the GPU of models from measured tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.sharing_profiles import COLUMNS, read_profile
from gpuplan.planner.sharing.profile_search import TE_DROP
from gpuplan.planner.sharing.profiling import ProfileResults, profile_models
from gpuplan.planner.studies.answer import Answer

MOST_RPS = 1e9


@dataclass(frozen=True, slots=True)
class ProfileParameters:
    """What was asked of ``gpuplan profile``, as JSON has it.

    Attributes:
        slo_s: latency that a request should keep; null for training.
        training: whether the tables are of training.
        te_drop: throughput per percent of the SMs that a step of the search may lose.
        load_rps: requests per second to serve; null without any.
        map: our column -> the header that stands for it.
    """

    slo_s: float | None
    training: bool
    te_drop: float
    load_rps: float | None
    map: dict[str, str]


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Which tables to search, and for what.

    Attributes:
        tables: measured tables, one per model.
        slo_s: latency that a request should keep; None for training.
        training: whether the tables are of training.
        te_drop: throughput per percent of the SMs that a step of the search may lose.
        names: our column -> the header that stands for it.
        load_rps: requests per second to serve; None for the most efficient batch and share.
    """

    tables: tuple[Path, ...]
    slo_s: float | None = None
    training: bool = False
    te_drop: float = TE_DROP
    names: Mapping[str, str] = field(default_factory=dict)
    load_rps: float | None = None

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads."""
        return self.tables

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check everything but the tables. Raises `UsageError`."""
        wrong = next((name for name in self.names if name not in COLUMNS), None)
        if wrong is not None:
            raise UsageError(f"--map {wrong}: expected one of {', '.join(COLUMNS)}")
        if (self.slo_s is None) != self.training:
            raise UsageError(
                "--slo: services need it, for example --slo 100ms"
                if self.slo_s is None
                else "--slo and --training: training has no latency; give one of the two"
            )

        if self.load_rps is not None and (self.training or not 0 < self.load_rps < MOST_RPS):
            raise UsageError(
                "--load and --training: training serves no requests; give one of the two"
                if self.training
                else f"--load {self.load_rps:g}: expected requests per second, above 0 and below "
                f"{MOST_RPS:,.0f}"
            )

    def parameters(self) -> ProfileParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        return ProfileParameters(
            self.slo_s, self.training, self.te_drop, self.load_rps, dict(self.names)
        )


def profile(request: ProfileRequest) -> Answer[ProfileRequest, ProfileResults]:
    """Choose batch size and share of the GPU of each model.

    Raises:
        InfeasibleError: no share of a table meets the SLO.
        InputError: a table cannot be used.
        UsageError: a request that cannot be meant, or two tables of one name.
    """
    request.check()
    tables = tuple(read_profile(path, request.names) for path in request.tables)
    results = profile_models(
        tables, request.slo_s, te_drop=request.te_drop, load_rps=request.load_rps
    )
    return Answer(
        request=request,
        results=results,
        inputs=tuple(
            InputFile(str(table.path), sha256_of(table.path), table.latency_s.size)
            for table in tables
        ),
        warnings=tuple(text for model in results.functions for text in model.warnings),
    )
