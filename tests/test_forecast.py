"""Linear forecasts of hourly demand: maps over windows against plain ones, and what they learn."""

import numpy as np
import pytest

from gpuplan.analysis.forecast.linear import (
    Windows,
    fit_linear,
    lagged_products,
    moving_average,
    penalty_of_parts,
)


@pytest.mark.parametrize("anchored", [True, False])
def test_maps_over_windows_are_those_of_plain_windows(anchored):
    rng = np.random.default_rng(0)
    series, length = rng.normal(size=(3, 40)), 7
    weights, residuals = rng.normal(size=(2, length)), rng.normal(size=(2, 3, 34))
    windows = np.lib.stride_tricks.sliding_window_view(series, length, axis=1)
    if anchored:
        windows = windows - windows[:, :, -1:]
    ours = Windows.of(series, length, anchored=anchored)
    assert ours.count == 34
    assert ours.apply(weights) == pytest.approx(np.einsum("snl,ml->msn", windows, weights))
    assert ours.adjoint(residuals) == pytest.approx(np.einsum("snl,msn->ml", windows, residuals))


def test_lagged_products_are_the_gram_matrix_of_the_windows():
    series = np.random.default_rng(1).normal(size=(2, 50))
    windows = np.lib.stride_tricks.sliding_window_view(series, 6, axis=1)[:, :30]
    expected = np.einsum("sna,snb->ab", windows, windows)
    assert lagged_products(series, 6, 30) == pytest.approx(expected)


def test_a_moving_average_keeps_constants_and_the_penalty_that_of_its_parts():
    smooth = moving_average(30, 25)
    assert smooth.sum(axis=1) == pytest.approx(1)
    assert smooth[15, 3:28] == pytest.approx(1 / 25)
    trend, rest = smooth, np.eye(30) - smooth
    parts = np.random.default_rng(2).normal(size=(2, 30))
    weights = trend.T @ parts[0] + rest.T @ parts[1]
    penalty = weights @ penalty_of_parts(30, 25) @ weights
    assert penalty <= (parts**2).sum() + 1e-9  # the least over all parts that make these weights


def demand(hours=24 * 7 * 12, seed=0):
    """Return two groups with a daily and a weekly rhythm and noise."""
    rng = np.random.default_rng(seed)
    at = np.arange(hours)
    day = 40 + 20 * np.sin(2 * np.pi * at / 24) - 15 * (at // 24 % 7 >= 5)
    return np.stack([day + rng.normal(0, 3, hours), 0.5 * day + rng.normal(0, 2, hours)])


def errors(series, model, begin):
    mean, sigma = model.forecast(series, 0)
    last = series.shape[1] - model.length - mean.shape[0]
    index = np.arange(begin - model.length, last + 1)
    truth = np.stack([series[:, index + model.length + step] for step in range(mean.shape[0])])
    return truth - mean[:, :, index], sigma[:, :, index], series[:, index + model.length - 1]


def test_a_rhythm_is_learned_and_its_error_is_honest():
    series = demand()
    hours = series.shape[1]
    model = fit_linear(series, 0, 168, 4, int(0.6 * hours), int(0.8 * hours))
    missed, sigma, last = errors(series, model, int(0.8 * hours))
    truth = missed + 0
    naive = np.abs(truth + 0)  # of the model
    persistence = np.abs(
        np.stack([series[:, int(0.8 * hours) + step : hours - 4 + step + 1] for step in range(4)])
        - last[None]
    )
    assert naive.mean() < 0.6 * persistence.mean()
    covered = (missed <= 1.2815515655446004 * sigma).mean()
    assert 0.86 < covered < 0.95


def test_a_random_walk_leads_to_persistence():
    walk = 100 + np.random.default_rng(5).normal(0, 1, (1, 24 * 7 * 8)).cumsum(axis=1)
    hours = walk.shape[1]
    model = fit_linear(walk, 0, 168, 4, int(0.6 * hours), int(0.8 * hours))
    missed, _, _ = errors(walk, model, int(0.8 * hours))
    begin = int(0.8 * hours)
    last = walk[:, begin - 1 : hours - 4]
    naive = np.stack([walk[:, begin + step : hours - 4 + step + 1] - last for step in range(4)])
    assert np.abs(missed).mean() < 1.1 * np.abs(naive).mean()


def test_two_fits_are_equal():
    series = demand(24 * 7 * 6)
    models = [fit_linear(series, 0, 48, 4, 600, 800) for _ in range(2)]
    assert (models[0].mean == models[1].mean).all() and (models[0].h == models[1].h).all()
