"""The Width Calculator as in the paper, slowly: one budget, one configuration at a time."""

from itertools import pairwise, product

import numpy as np
from support_boa import total_of

from gpuplan.planner.speedup.functions import concave_hull


def compositions(epochs):
    """All ways to cut epochs into stretches, as lists of (first, end)."""
    for cuts in product((False, True), repeat=epochs - 1):
        bounds = [0, *(j + 1 for j, cut in enumerate(cuts) if cut), epochs]
        yield list(pairwise(bounds))


def stretch_edges(job_class, first, end):
    """Hull edges of a stretch: (slope, (GPU-hours, hours) at both ends); widths are 1, 2, ..."""
    run = (job_class.work_h[first:end, None] / job_class.speedup[first:end]).sum(axis=0)
    work = job_class.work_h[first:end].sum()
    hull = concave_hull(job_class.widths, work / run)
    points = [(k * work / s, work / s) for k, s in zip(hull.widths, hull.speedups, strict=True)]
    edges = [(job_class.weight * (a[1] - b[1]) / (b[0] - a[0]), a, b) for a, b in pairwise(points)]
    return points[0], edges


def widths_at(classes, cuts, running):
    """Solve problem (1) for a running budget, and round its widths to the nearest candidate."""
    hours, queue = {}, []
    for i, (job_class, stretches) in enumerate(zip(classes, cuts, strict=True)):
        for first, end in stretches:
            hours[i, first], edges = stretch_edges(job_class, first, end)
            queue += [(-slope, i, first, a, b) for slope, a, b in edges]
    left = running - sum(classes[i].rate_per_h * cost for (i, _), (cost, _) in hours.items())
    if left < 0:
        return None
    for _, i, first, a, b in sorted(queue):
        price = classes[i].rate_per_h * (b[0] - a[0])
        share = min(1.0, left / price)
        hours[i, first] = tuple((1 - share) * x + share * y for x, y in zip(a, b, strict=True))
        left -= share * price
        if left <= 0:
            break
    return [
        [
            int(np.floor(cost / time + 0.5)) - 1  # candidate 0 is 1 GPU
            for first, end in stretches
            for cost, time in [hours[i, first]]
            for _ in range(first, end)
        ]
        for i, stretches in enumerate(cuts)
    ]


def width_calculator(classes, budget, steps=4000):
    """Least objective found, in hours per hour of arrivals; the running budget falls in steps."""
    best = np.inf
    for cuts in product(*(list(compositions(c.work_h.size)) for c in classes)):
        for running in np.linspace(budget, 0, steps):
            widths = widths_at(classes, cuts, running)
            if widths is None:
                break
            totals = [total_of(c, path) for c, path in zip(classes, widths, strict=True)]
            if sum(c.rate_per_h * t[0] for c, t in zip(classes, totals, strict=True)) <= budget:
                time = sum(
                    c.rate_per_h * c.weight * t[1] for c, t in zip(classes, totals, strict=True)
                )
                best = min(best, time)
                break
    return best
