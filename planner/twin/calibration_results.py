"""The results of ``gpuplan calibrate``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.planner.twin.infer import Inferred
from gpuplan.planner.twin.score import LevelScore


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far replays differ that differ in ties alone.

    Attributes:
        within: share of jobs close to each other, on average over the pairs.
        mae_s: mean absolute difference of their waits.
        spread_s: greatest difference of their mean absolute errors.
    """

    within: float
    mae_s: float
    spread_s: float


@dataclass(frozen=True, slots=True)
class CalibrateResults:
    """How well each set of rules explains the waits of a log.

    Attributes:
        within: share of jobs that the chosen rules replay within 5 minutes or 20% of their
            recorded wait.
        mae_s: mean absolute error of their waits.
        levels: a score per set of rules, each with more rules than the one before.
        skipped_levels: set of rules -> why it was not replayed.
        noise_floor: how far replays differ that differ in ties alone.
        excluded: jobs that are replayed and not scored, by reason.
        scored_jobs: jobs scored.
        replayed_jobs: jobs replayed.
        earlier_jobs: jobs of a long log that are not replayed, since they came before its last
            weeks.
        left_out: rows of the log that are not usable GPU jobs, by reason.
        rejected: jobs that never start under the chosen rules, by reason.
        chosen: the rules to use.
        choice: why.
        inferred: settings that were inferred or assumed.
        rules_off: what the log cannot tell, one sentence each.
        unknown_settings: settings of the files that the model does not use.
        advice: what the pattern of the errors suggests.
        notes: what a reader should know.
    """

    within: float
    mae_s: float
    levels: tuple[LevelScore, ...]
    skipped_levels: dict[str, str]
    noise_floor: NoiseFloor
    excluded: dict[str, int]
    scored_jobs: int
    replayed_jobs: int
    earlier_jobs: int
    left_out: dict[str, int]
    rejected: dict[str, int]
    chosen: str
    choice: str
    inferred: tuple[Inferred, ...]
    rules_off: list[str]
    unknown_settings: list[str]
    advice: tuple[str, ...]
    notes: tuple[str, ...]
