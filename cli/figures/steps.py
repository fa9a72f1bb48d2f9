"""Step functions over time, also very long ones."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from gpuplan.simkit.workload import FloatArray

STEPS = 800  # as many as a picture has columns to show


def draw_steps(axes: Axes, time: FloatArray, value: object, colour: str, label: str = "") -> None:
    """Draw a step function; of a long one the largest value in each of `STEPS` stretches."""
    height = np.asarray(value, np.float64)
    if time.size > STEPS:
        begin = np.linspace(time[0], time[-1], STEPS)
        most = height[np.searchsorted(time, begin, side="right") - 1]  # carried into the stretch
        np.fmax.at(most, np.searchsorted(begin, time, side="right") - 1, height)
        time, height = begin, most
    axes.step(time, height, where="post", color=colour, linewidth=1.2, label=label)
