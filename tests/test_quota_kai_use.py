"""Past use in KAI's fair shares: the decayed use of a replay against the formula."""

from math import exp, log

import numpy as np
import pytest
from support_quota_state import fair_shares

from gpuplan.simkit.quota.kai_simulator import KaiJobs, KaiSite, replay_kai
from gpuplan.simkit.quota.kai_site import KaiQueue

pytestmark = pytest.mark.kernels

GPUS = 12


def decayed(stretches, now, half_life, window):
    """Return the integral of GPUs over time, each second weighed by how long ago it was.

    ``stretches`` are (from, to, GPUs); a half-life of 0 does not decay, a window of 0 is all.
    """
    rate = log(2) / half_life if half_life else 0.0
    total = 0.0
    for begin, end, gpus in stretches:
        begin, end = max(begin, now - window) if window else begin, min(end, now)
        if begin >= end:
            continue
        if rate:
            total += gpus * (exp(-rate * (now - end)) - exp(-rate * (now - begin))) / rate
        else:
            total += gpus * (end - begin)
    return total


def started(held, now, site):
    """Return how many jobs of one GPU of each of two queues start at an instant.

    ``held`` are the stretches of the first queue before; both want all GPUs at the instant.
    """
    rows = [(0, begin, end - begin, gpus) for begin, end, gpus in held]
    rows += [(queue, now, 10_000, 1) for queue in (0, 1) for _ in range(GPUS)]
    queue, submit, run, size = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    one, none = np.ones_like(queue), np.zeros_like(queue)
    jobs = KaiJobs(queue, none, none, submit, run, size, one, one)
    told = replay_kai(site, jobs)
    first = told.job[told.start_s == now]
    return [int((queue[first[first >= len(held)]] == each).sum()) for each in (0, 1)]


@pytest.mark.parametrize(
    ("held", "now", "half_life", "window", "k"),
    [
        ([(0, 600, 12)], 600, 600, 0, 1.0),
        ([(0, 600, 12)], 1200, 600, 0, 1.0),
        ([(0, 600, 12)], 6000, 600, 0, 1.0),  # nearly forgotten
        ([(0, 600, 4), (600, 900, 12)], 1000, 300, 0, 1.0),
        ([(0, 600, 12)], 1200, 0, 0, 1.0),  # half of all time
        ([(0, 600, 12)], 1200, 0, 500, 1.0),  # out of the window
        ([(0, 600, 12)], 800, 400, 300, 1.0),  # half of the window
        ([(0, 600, 12)], 1200, 600, 0, 0.25),
        ([(0, 600, 12)], 1200, 600, 0, 0.0),
    ],
)
def test_shares_follow_the_decayed_use(held, now, half_life, window, k):
    use = decayed(held, now, half_life, window) / decayed([(0, now, GPUS)], now, half_life, window)
    queues = (KaiQueue("a", deserved=0), KaiQueue("b", deserved=0, created=1))
    site = KaiSite((GPUS,), queues, usage_weight=k, half_life_s=half_life, window_s=window)
    # Weights are a half each: f = 1/2 + k (1/2 - use), and the rest of a division goes by fraction.
    wanted = [max(0.0, 0.5 + k * (0.5 - each)) for each in (use, 0.0)]
    exact = [GPUS * part / sum(wanted) for part in wanted]
    shares = fair_shares([KaiQueue("a", deserved=0, usage=use), queues[1]], [GPUS] * 2, GPUS, k)
    assert np.abs(shares - exact).max() < 1
    assert started(held, now, site) == shares.tolist()


def test_more_use_never_gives_more():
    queues = (KaiQueue("a", deserved=0), KaiQueue("b", deserved=0, created=1))
    site = KaiSite((GPUS,), queues, usage_weight=1.0, half_life_s=600, window_s=0)
    counts = [started([(0, until, GPUS)], 1200, site)[0] for until in (1, 300, 600, 900, 1200)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
