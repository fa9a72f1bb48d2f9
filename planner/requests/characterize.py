"""What ``gpuplan characterize`` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import UnsetType

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.money.price_request import BOOK_PARAMETERS, PriceRequest
from gpuplan.planner.requests.declaration import (
    ALWAYS,
    COST,
    JCT,
    NEEDS_TABLE,
    WORKLOAD,
    StudyRequest,
    study,
)
from gpuplan.planner.requests.trace import REFERENCE, TRACE_HELP

MOST_TRACES = 6  # the picture has as many colors
RESAMPLES = 200


@study(
    "characterize",
    title="The workload",
    picture="Durations, their inequality, and load",
    example="gpuplan characterize trace.parquet --fits --ci 95",
    doing="characterizing",
    has_rows=False,
    usual_for=ALWAYS,
    report_place=1,
    book_needs={
        "gpu": ("prices", "price", "contracts", "commit", "owned", "on_demand"),
        **NEEDS_TABLE,
    },
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "gpu_time.gpu_hours": (WORKLOAD, "GPU-hours"),
        "duration_s.mean": (WORKLOAD, "mean duration"),
        "duration_s.p95": (WORKLOAD, "p95 duration"),
        "load.mean_gpus": (WORKLOAD, "mean load"),
        "prices.cheapest_each_hour.cost_usd": (COST, "least cost"),
        "queue_s.mean": (JCT, "mean wait"),
    },
)
@dataclass(frozen=True, slots=True)
class CharacterizeRequest(StudyRequest):
    """Describe a workload: waits, durations, load, and cost.

    Attributes:
        jobs: which jobs of each, and when the age of prices is judged (``as_of``; None for the last
            submission).
        prices: what an hour of a GPU costs, for the monthly bill: as given, else the median of the
            table; and the table, for what one trace would have cost at each source.
        reference: ``provider:kind`` that savings are counted against; None for the most expensive
            on-demand source of each GPU.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "resamples": Annotated[int, "of the bootstrap behind --ci"],
        "price": Annotated[
            dict[str, float | dict[str, float]] | UnsetType,
            "dollars per GPU-hour by GPU type, or by date; the empty name is every other type",
        ],
        **BOOK_PARAMETERS,
        "prices": Annotated[str | UnsetType, "the price table"],
        "gpu": Annotated[str | UnsetType | None, "GPU type of jobs that name none"],
        "provider": Annotated[str | UnsetType, "the provider of these prices that is paid"],
        "reference": Annotated[str | UnsetType | None, "what savings are counted against"],
    }

    traces: Annotated[
        tuple[Path, ...],
        Opt(
            f"{TRACE_HELP} Several are compared.",
            flag="trace",
            key=None,
            metavar="TRACE|LOG",
            many=True,
            argument=True,
        ),
    ]
    jobs: Annotated[Selection, Group(without=("spot",))] = field(default_factory=Selection)
    prices: Annotated[
        PriceRequest,
        Group(common=("prices", "contracts"), in_json=False),
    ] = field(default_factory=PriceRequest)
    top: Annotated[
        int,
        Opt(
            "Rows of the class, user, and group tables; the last row sums the rest.",
            low=1,
            common=True,
        ),
    ] = 10
    fits: Annotated[
        bool,
        Opt(
            "Fit heavy-tailed models to durations and gaps, and name the best.",
            flag="--fits",
            common=True,
        ),
    ] = False
    ci: Annotated[
        float | None,
        Opt(
            "Add confidence intervals of this level in percent, such as 95, by a block bootstrap.",
            common=True,
        ),
    ] = None
    resamples: Annotated[
        int | None,
        Opt(f"Resamples of the bootstrap behind --ci. Default: {RESAMPLES}.", key=None, low=1),
    ] = None
    reference: Annotated[str | None, replace(REFERENCE, key=None)] = None

    def check(self) -> None:
        """Check what can be checked before a trace is read. Raises `UsageError`."""
        if not self.traces:
            raise ValueError("expected at least one trace")
        if len(self.traces) > MOST_TRACES:
            raise UsageError(
                f"{len(self.traces)} traces: at most {MOST_TRACES} are compared at once"
            )
        if self.prices.prices is not None and len(self.traces) > 1:
            raise UsageError("--prices: give one trace, to say what it would have cost")
        if self.prices.gpu is not None and not self.prices.is_given:
            raise UsageError("--gpu: needs --prices FILE or builtin, or another price")
        if self.reference is not None and self.prices.prices is None:
            raise UsageError("--reference: needs --prices FILE or builtin")
        if self.ci is None:
            if self.resamples is not None:
                raise UsageError("--resamples: needs --ci LEVEL")
            return
        if self.jobs.has_period:
            raise UsageError(
                "--ci: resamples jobs, not a period of time; choose jobs with --since and --until "
                "instead of --from and --to"
            )
        from gpuplan.analysis.characterize.intervals import check_level

        check_level(self.ci, self.resamples or RESAMPLES)

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        prices, shown = self.prices, StudyRequest.parameters(self)
        shown["resamples"] = self.resamples or RESAMPLES
        if prices.prices is not None:
            shown |= {"prices": prices.prices, "gpu": prices.gpu, "reference": self.reference}
            shown |= {} if prices.provider is None else {"provider": prices.provider}
        shown |= prices.book_parameters()
        return shown | ({"price": dict(prices.usd_per_gpu_h)} if prices.usd_per_gpu_h else {})
