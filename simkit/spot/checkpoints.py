"""What a checkpoint saves of a run: the useful time since its start that an eviction keeps."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_kernel as kernel
from gpuplan.simkit.spot.tasks import DURATION, SAVED


@kernel
def kept_of(tasks: Any, task: int, useful: int, rules: Any) -> int:
    """Return how many of the useful seconds of a run its last checkpoint keeps.

    Checkpoints come at regular intervals of each run, or at milestones of the whole task.

    Args:
        tasks: of `gpuplan.simkit.spot.tasks`.
        task: which of them.
        useful: seconds of work since the run began, >= 0.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
    """
    if rules.milestones.size + rules.milestones_s.size == 0:
        return useful // rules.checkpoint_s * rules.checkpoint_s
    saved: int = tasks[SAVED, task]
    best = saved
    for at in range(rules.milestones.size):
        reached = int(rules.milestones[at] * tasks[DURATION, task])
        if best < reached <= saved + useful:
            best = reached
    for at in range(rules.milestones_s.size):
        reached = rules.milestones_s[at]
        if best < reached <= saved + useful:
            best = reached
    return best - saved
