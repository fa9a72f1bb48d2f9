"""What a checkpoint saves of a run: the useful time since its start that an eviction keeps."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_kernel
from gpuplan.simkit.spot.tasks import DURATION, SAVED


@borrowing_kernel
def kept_of(tasks: Any, task: int, useful: int, rules: Any, milestones: Any) -> int:
    """Return how many of the useful seconds of a run its last checkpoint keeps.

    Checkpoints come at regular intervals of each run, or at milestones of the whole task.

    Args:
        tasks: of `gpuplan.simkit.spot.tasks`.
        task: which of them.
        useful: seconds of work since the run began, >= 0.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        milestones: of `gpuplan.simkit.spot.tasks.Scratch`.
    """
    kept: int = useful // rules.checkpoint_s * rules.checkpoint_s
    if milestones.size:
        saved = best = tasks[SAVED, task]
        for at in range(milestones.size):
            milestone = milestones[at]
            reached = int(milestone * tasks[DURATION, task] if milestone < 1.0 else milestone)
            if best < reached <= saved + useful:
                best = reached
        kept = best - saved
    return kept
