"""The results of ``gpuplan profile``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.planner.sharing.profile_search import LoadChoice, Trial


@dataclass(frozen=True, slots=True)
class ProfileOptimum:
    """The best entry of a whole table.

    Attributes:
        batch: batch size.
        request: share of the GPU, of 1.
    """

    batch: int
    request: float


@dataclass(frozen=True, slots=True)
class TrainingTrial:
    """One evaluation of the search of a training job.

    Attributes:
        sm_percent: share of the SMs in percent.
        throughput: items per second.
    """

    sm_percent: float
    throughput: float


@dataclass(frozen=True, slots=True)
class ProfiledFunction:
    """What was found for a model; null where it does not apply to training.

    Attributes:
        name: the model.
        kind: inference or training.
        batch: batch size chosen.
        request: share of a GPU that it needs, of 1.
        limit: share of a GPU that it may get, of 1.
        slo_s: latency that a request should keep.
        latency_s: time of the batch chosen.
        throughput: items per second of it.
        evaluations: entries of the table that the search looked at.
        moves: evaluations after the first.
        traversal: the best entry of the whole table.
        te: throughput efficacy of the choice: items per second and percent of the SMs.
        te_best: the same of the best entry.
        stopped: why the search ended.
        share_reaction: best rate over worst across shares, at the largest batch.
        suspicious: whether the share was perhaps not applied.
        for_load: the least of a GPU that serves ``--load``; null without it.
        path: the evaluations of a service in their order.
        training_path: those of training.
    """

    name: str
    kind: str
    batch: int
    request: float
    limit: float
    slo_s: float | None
    latency_s: float | None
    throughput: float | None
    evaluations: int
    moves: int
    traversal: ProfileOptimum | None
    te: float | None
    te_best: float | None
    stopped: str | None
    share_reaction: float
    suspicious: bool
    for_load: LoadChoice | None
    path: tuple[Trial, ...]
    training_path: tuple[TrainingTrial, ...]


@dataclass(frozen=True, slots=True)
class ProfileResults:
    """What was found for each model.

    Attributes:
        functions: one entry per table.
    """

    functions: tuple[ProfiledFunction, ...]
