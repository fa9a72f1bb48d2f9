"""FFT: fair and fast rounds on several GPU types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.mixed.mixed_policy import Decided, mixed_policy
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs

OWN = {
    "phi": Setting(
        "choice",
        "work in the cost of a job: mixed (total work, then the work left) or total (total work in "
        "both terms, as published)",
        ("mixed", "total"),
        default="mixed",
    ),
    "fairness_weight": Setting(
        "number", "weight of the share that a job has missed so far", default=1.0
    ),
    "switch_weight": Setting(
        "number", "weight of the rounds that a change of type takes", default=1.0
    ),
    "switch_gpu": Setting(
        "flag", "weigh a switch by the GPUs of the job, and include the restart", default=False
    ),
    "work_unit": Setting(
        "choice",
        "unit of work in the cost: fastest (rounds on the fastest type of a job), or given (that "
        "of --throughputs)",
        ("fastest", "given"),
        default="fastest",
    ),
    "exact": Setting(
        "flag", "solve each round to proven optimality, else within 0.1%", default=False
    ),
}


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    from gpuplan.planner.policies.mixed.fft_rounds import FftRounds, FftRules

    rounds = FftRounds(
        FftRules(
            phi=values["phi"],
            switch_weight=values["switch_weight"],
            fairness_weight=values["fairness_weight"],
            per_gpu=values["switch_gpu"],
            exact=values["exact"],
        )
    )

    def results() -> dict[str, Any]:
        gaps = [(best - bound) / max(abs(best), 1e-12) for _, _, best, bound, _ in rounds.answers]
        return {"solver_gap_max": max(gaps, default=0.0), "rounds_above_gap": rounds.loose}

    def warnings() -> tuple[str, ...]:
        if not rounds.loose:
            return ()
        return (
            f"{rounds.loose:,} of {len(rounds.answers):,} rounds were not solved within 0.1%; "
            f"they take the best allocation found (gap at most {results()['solver_gap_max']:.2%})",
        )

    return Decided(rounds, results, warnings)


POLICY = mixed_policy(
    "fft",
    "several GPU types: fair and fast, anew each round",
    "FFT: Fast and Fair Training",
    prepare,
    own=OWN,
)
