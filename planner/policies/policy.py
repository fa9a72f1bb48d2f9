"""What a policy is to those who run it: settings, a replay, and how a frontier varies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuplan.planner.runs.settings import Setting, defaults_of

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Baseline:
    """How a policy is compared with the plans of a budget frontier.

    Attributes:
        knob: what the number is that trades GPUs against completion time, with the unit; empty
            where there is none.
        knobs: values of the knob that draw its curve.
        run: replays the jobs at one of them.
        is_standing: whether its cluster stands from the first job on and does not grow.
    """

    knob: str
    knobs: Callable[[ClassWorkload], Sequence[float]]
    run: Callable[[ClassWorkload, RentedCluster, float], PlanReplay]
    is_standing: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy.

    Attributes:
        name: what users call it; no other has it.
        about: what it does, one sentence.
        source: where it comes from.
        settings: what may be set, by name.
        run: replays jobs under settings, with a generator for what is random.
        baseline: how ``gpuplan pareto --baseline`` runs it; None where it cannot.
        listed_with: the policy whose line names it too where policies are listed briefly; empty for
            a line of its own.
        takes_gpu_types: whether its cluster may have several GPU types.
        decides_by_deadlines: whether soft deadlines change what it does.
        never_starts: which jobs could never start under the effective settings, by their places;
            they are left out for all policies of a comparison. None where every job starts.
    """

    name: str
    about: str
    source: str
    settings: Mapping[str, Setting]
    run: Callable[[TraceJobs, Mapping[str, Any], np.random.Generator], Simulation]
    baseline: Baseline | None = None
    takes_gpu_types: bool = False
    listed_with: str = ""
    decides_by_deadlines: bool = False
    never_starts: Callable[[TraceJobs, Mapping[str, Any]], IntArray] | None = None

    def defaults(self) -> dict[str, Any]:
        """Return the value of each setting where it is not set."""
        return defaults_of(self.settings)


def checked(policy: Policy) -> Policy:
    """Return a policy whose parts fit together. Raises ValueError where they do not."""
    if not isinstance(policy.baseline, Baseline | None):
        raise ValueError(f"its baseline is of type {type(policy.baseline).__name__}")
    for name, setting in policy.settings.items():
        if not isinstance(setting, Setting):
            raise ValueError(f"its setting {name} is of type {type(setting).__name__}")
        if error := setting.error(name, setting.default):
            raise ValueError(f"the default of its setting {name}: {error.problem}")
    return policy
