"""The automatic length of the blocks: known processes, long memories, degenerate series."""

import numpy as np
import pytest
from scipy.signal import lfilter

from gpuplan.analysis.statistics.block_length import ENOUGH_BLOCKS, automatic_length, block_length


def autoregression(size, keep, seed):
    noise = np.random.default_rng(seed).normal(size=size + 500)
    return lfilter([(1 - keep**2) ** 0.5], [1.0, -keep], noise)[500:]


@pytest.mark.parametrize("keep", [0.3, 0.7])
def test_an_autoregression_has_a_closed_form(keep):
    # g = (1 + r) / (1 - r) and G = 2 r / (1 - r)^2, so b = (1.5 n (G / g)^2)^(1/3).
    size = 4000
    known = (1.5 * size * (2 * keep / (1 - keep**2)) ** 2) ** (1 / 3)
    found = np.mean([automatic_length(autoregression(size, keep, seed)) for seed in range(40)])
    assert found == pytest.approx(known, rel=0.25)


def test_independent_jobs_have_many_blocks():
    rng = np.random.default_rng(0)
    lengths = [block_length(rng.lognormal(0, 2, 8000), rng.exponential(1, 8000)) for _ in range(30)]
    assert np.mean(lengths) < 20  # and not 800, the tenth of a trace of one day


def test_the_longest_memory_decides():
    rng = np.random.default_rng(1)
    short, long = rng.exponential(size=8000), np.exp(autoregression(8000, 0.9, 2))
    assert block_length(short, long) == block_length(long) > 3 * block_length(short)


def test_what_a_day_ties_together_stays_together():
    days = np.repeat(np.random.default_rng(3).gamma(4, 0.25, 100), 2000)
    values = days * np.random.default_rng(4).exponential(size=days.size)
    assert block_length(values) > 2000  # beyond the lags that so many jobs are looked at


def test_few_jobs_rare_values_and_none():
    assert block_length(np.arange(19.0)) == 1
    assert block_length(np.full(100, 3.0)) == block_length(np.full(100, np.nan)) == 1
    trend = np.arange(1000.0)
    assert block_length(trend) == 1000 // ENOUGH_BLOCKS
    gaps = np.where(np.arange(1000) % 3 == 0, np.nan, autoregression(1000, 0.9, 5))
    assert 1 < block_length(gaps) <= 50
    assert block_length(np.tile([0.0, 1.0], 500)) >= 1  # swings: the sum of covariances is 0
