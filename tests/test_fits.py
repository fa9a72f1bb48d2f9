"""Fits of times: parameters put in and found, likelihoods and distances as SciPy's, laws."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gpuplan.analysis.fits.families import (
    Exponential,
    Gamma,
    Lognormal,
    Weibull,
    fit_gamma,
    fit_lognormal,
    fit_weibull,
)
from gpuplan.analysis.fits.mixtures import HyperExponential, Spliced, em_step, fit_hyperexponential
from gpuplan.analysis.fits.models import fit_times, ks_distance
from gpuplan.analysis.fits.pareto import fit_tail, vuong
from gpuplan.analysis.fits.sample import Sample, positive_sample

N = 20_000


def rng():
    return np.random.default_rng(17)


def sample_of(values):
    return positive_sample(np.sort(np.asarray(values, dtype=float)))[0]


def slow_spliced(x, body, threshold, index, share):
    """The density of a splice, one value at a time."""
    if x >= threshold:
        return share * index / threshold * (x / threshold) ** (-index - 1)
    return (1 - share) * body.pdf(x) / body.cdf(threshold)


MODELS = {  # model: SciPy's
    "exponential": (Exponential(40.0), stats.expon(scale=40)),
    "lognormal": (Lognormal(300.0, 2.0), stats.lognorm(2, scale=300)),
    "weibull": (Weibull(0.4, 500.0), stats.weibull_min(0.4, scale=500)),
    "gamma": (Gamma(0.3, 900.0), stats.gamma(0.3, scale=900)),
    "pareto": (Spliced(None, 60.0, 1.3, 1.0), stats.pareto(1.3, scale=60)),
}


def test_a_sample_is_distinct_values_with_counts():
    sample, zeros = positive_sample(np.array([0.0, 0.0, 1.0, 3.0, 3.0, 3.0, 9.0]))
    assert (zeros, sample.value.tolist(), sample.count.tolist()) == (2, [1, 3, 9], [1, 3, 1])
    assert sample.mean == pytest.approx(19 / 5)
    assert sample.mean_log == pytest.approx(np.log([1, 3, 3, 3, 9]).mean())
    assert sample.std_log == pytest.approx(np.log([1, 3, 3, 3, 9]).std())
    grouped = sample.grouped(2)  # 1, then 3 and 9 as their geometric mean
    assert grouped.count.tolist() == [1, 4]
    assert grouped.value[1] == pytest.approx((27 * 9) ** 0.25)
    assert grouped.mean_log == pytest.approx(sample.mean_log)


@pytest.mark.parametrize("name", MODELS)
def test_densities_and_distances_are_those_of_scipy(name):
    model, oracle = MODELS[name]
    values = np.sort(oracle.rvs(500, random_state=rng()).round().clip(1))
    if name == "pareto":
        values = values.clip(60)
    sample = sample_of(values)
    assert sample.value.size < values.size  # ties are counted
    density = model.log_density(sample.value)
    assert sample.count @ density == pytest.approx(oracle.logpdf(values).sum(), rel=1e-10)
    assert model.survival(sample.value) == pytest.approx(oracle.sf(sample.value), rel=1e-9)
    expected = stats.kstest(values, oracle.cdf).statistic
    assert ks_distance(sample, model) == pytest.approx(expected, abs=1e-12)


def test_the_density_of_a_splice_adds_up():
    body, oracle = Lognormal(300.0, 2.0), stats.lognorm(2, scale=300)
    model = Spliced(body, 5000.0, 1.2, 0.08)
    x = np.geomspace(1e-3, 1e7, 2001)
    slow = [slow_spliced(v, oracle, 5000.0, 1.2, 0.08) for v in x]
    assert np.exp(model.log_density(x)) == pytest.approx(slow, rel=1e-9)
    survival = model.survival(x)
    assert (np.diff(survival) <= 0).all()
    steps = -np.diff(survival)
    middle = np.sqrt(x[1:] * x[:-1])
    density = np.exp(model.log_density(middle)) * np.diff(x)
    away = np.abs(np.log(middle / 5000)) > 0.02  # the density jumps at the threshold
    assert steps[away] == pytest.approx(density[away], rel=1e-3, abs=1e-12)
    assert model.survival(np.array([5000.0]))[0] == pytest.approx(0.08)


def test_the_families_find_their_parameters():
    lognormal = fit_lognormal(sample_of(stats.lognorm(1.8, scale=700).rvs(N, random_state=rng())))
    assert lognormal.median_s == pytest.approx(700, rel=0.05)
    assert lognormal.sigma == pytest.approx(1.8, rel=0.03)
    weibull = fit_weibull(sample_of(stats.weibull_min(0.45, scale=90).rvs(N, random_state=rng())))
    assert weibull.shape == pytest.approx(0.45, rel=0.03)
    assert weibull.scale_s == pytest.approx(90, rel=0.06)
    gamma = fit_gamma(sample_of(stats.gamma(0.3, scale=5000).rvs(N, random_state=rng())))
    assert gamma.shape == pytest.approx(0.3, rel=0.03)
    assert gamma.scale_s == pytest.approx(5000, rel=0.06)


def test_fits_are_those_of_scipy():
    values = stats.gamma(0.7, scale=50).rvs(3000, random_state=rng())
    sample = sample_of(values)
    shape, _, scale = stats.weibull_min.fit(values, floc=0)
    weibull = fit_weibull(sample)
    assert (weibull.shape, weibull.scale_s) == pytest.approx((shape, scale), rel=1e-4)
    shape, _, scale = stats.gamma.fit(values, floc=0)
    gamma = fit_gamma(sample)
    assert (gamma.shape, gamma.scale_s) == pytest.approx((shape, scale), rel=1e-5)


def test_phases_are_found():
    draw = rng()
    means = np.array([20.0, 600.0, 40_000.0])
    values = draw.exponential(means[draw.choice(3, 3 * N, p=[0.5, 0.4, 0.1])])
    found = fit_hyperexponential(sample_of(values), 3)
    assert found.weights == pytest.approx([0.5, 0.4, 0.1], abs=0.02)
    assert found.means_s == pytest.approx(means, rel=0.1)
    assert found.free == 5


def test_no_other_mixture_near_the_fit_is_more_likely():
    draw = rng()
    values = draw.lognormal(5, 2, 3000)
    sample = sample_of(values)
    found = fit_hyperexponential(sample, 2)
    best = sample.average(found.log_density(sample.value))
    for change in (0.98, 1.02):
        for which in range(2):
            means = list(found.means_s)
            means[which] *= change
            other = HyperExponential(found.weights, tuple(means))
            assert sample.average(other.log_density(sample.value)) < best
        first = found.weights[0] * change
        other = HyperExponential((first, 1 - first), found.means_s)
        assert sample.average(other.log_density(sample.value)) < best


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1e7), min_size=3, max_size=40),
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(1e-3, 1e6)), min_size=1, max_size=3),
)
def test_an_em_step_never_lowers_the_likelihood(values, phases):
    sample = sample_of(values)
    weights, means = (np.array(column) for column in zip(*phases, strict=True))
    weights = weights / weights.sum()
    before, weights, means = em_step(sample, weights, means)
    after, weights, _ = em_step(sample, weights, means)
    assert after >= before - 1e-9 * abs(before)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("oracle", "name"),
    [
        (stats.lognorm(2.2, scale=600), "lognormal"),
        (stats.weibull_min(0.4, scale=600), "weibull"),
        (stats.gamma(0.3, scale=4000), "gamma"),
        (stats.expon(scale=600), "exponential"),
    ],
)
def test_the_family_that_made_the_data_is_chosen(oracle, name):
    found = fit_times(np.sort(oracle.rvs(N, random_state=rng())))
    assert found.best.model == name
    rest = found.models[1:]
    assert all(fit.vuong.z > -2 for fit in rest)  # none is significantly better
    assert [fit.aic for fit in found.models] == sorted(fit.aic for fit in found.models)
    for fit in found.models:
        assert fit.aic == pytest.approx(2 * fit.free_parameters - 2 * fit.log_likelihood)


def test_a_pareto_tail_is_found_with_its_threshold_and_index():
    draw = rng()
    body = draw.lognormal(np.log(300), 1.5, 2 * N)
    body = body[body < 6000][:18_000]
    tail = 6000 * draw.uniform(size=2000) ** (-1 / 1.2)
    found = fit_times(np.sort(np.concatenate([body, tail])))
    model = found.best.parameters
    assert found.best.model == "lognormal_pareto"
    assert model["threshold_s"] == pytest.approx(6000, rel=0.15)
    assert model["index"] == pytest.approx(1.2, abs=0.08)
    assert model["tail_share"] == pytest.approx(0.1, abs=0.02)
    assert model["body"]["median_s"] == pytest.approx(300, rel=0.05)
    assert found.tail.against["exponential"].z > 3  # the tail is no exponential
    assert found.tail.against["lognormal"].z > -2
    (hill,) = (point for point in found.tail.hill if point.share == 0.05)
    assert (hill.values, hill.index) == (1000, pytest.approx(1.2, abs=0.12))


def test_a_pure_power_law_has_no_body():
    found = fit_times(np.sort(60 * rng().uniform(size=5000) ** (-1 / 0.9)))
    assert found.best.model.endswith("pareto")
    assert found.best.parameters["index"] == pytest.approx(0.9, abs=0.06)


def test_the_tail_worked_by_hand():
    # Hill of the 2 largest of 1, 1, 2, 4, 8: mean of log(8/2) and log(4/2) is 1.5 log 2.
    values = np.repeat([1.0, 2.0, 4.0, 8.0], [60, 20, 10, 10])
    sample = sample_of(values)
    tail = fit_tail(Sample(sample.value, sample.count))
    assert tail is None  # fewer than 5 distinct values
    many = sample_of(np.concatenate([values, np.linspace(1, 2, 100)]))
    tail = fit_tail(many)
    (point,) = (point for point in tail.hill if point.share == 0.1)
    # 20 of 200 values are the largest: ten 8, ten 4; the next smaller is 2.
    assert (point.values, point.index) == (20, pytest.approx(1 / (1.5 * np.log(2))))


def test_thresholds_are_searched_as_one_by_one():
    values = np.sort(rng().lognormal(3, 1, 400).round(2))
    sample = sample_of(values)
    tail = fit_tail(sample)

    def distance(threshold):
        over = values[values >= threshold]
        index = over.size / np.log(over / threshold).sum()
        return stats.kstest(over, stats.pareto(index, scale=threshold).cdf).statistic

    tried = {t: distance(t) for t in np.unique(values) if (values >= t).sum() >= 50}
    assert tail.ks == pytest.approx(distance(tail.threshold_s))
    assert tail.ks <= 1.1 * min(tried.values())  # 200 of the thresholds are tried
    over = values[values >= tail.threshold_s]
    assert tail.values == over.size
    assert tail.index == pytest.approx(over.size / np.log(over / tail.threshold_s).sum())
    few = sample_of(values[:150])  # every threshold is tried
    ks = {t: 0.0 for t in np.unique(values[:150])}
    for t in list(ks):
        over = values[:150][values[:150] >= t]
        if over.size < 50:
            del ks[t]
            continue
        index = over.size / np.log(over / t).sum()
        ks[t] = stats.kstest(over, stats.pareto(index, scale=t).cdf).statistic
    found = fit_tail(few)
    assert found.ks == pytest.approx(min(ks.values()))
    assert found.threshold_s == min(ks, key=ks.get)


def test_vuong_worked_by_hand():
    sample = Sample(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    # Differences 1, 1, 1, -1: mean 0.5, standard deviation sqrt(0.75), z = 2 * 0.5 / 0.866.
    found = vuong(sample, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert found.z == pytest.approx(1 / 0.75**0.5)
    assert found.p == pytest.approx(2 * stats.norm.sf(found.z))
    assert vuong(sample, np.ones(2), np.ones(2)).z is None


def test_grouping_changes_nothing_that_shows():
    values = np.sort(rng().lognormal(4, 2, 30_000))
    sample = sample_of(values)
    assert sample.value.size > 4096
    grouped, whole = fit_weibull(sample.grouped()), fit_weibull(sample)
    assert grouped.shape == pytest.approx(whole.shape, rel=1e-4)
    top = values[-1]  # the estimating equation holds for all values, not only for the bins
    power = (values / top) ** whole.shape
    slope = power @ np.log(values) / power.sum() - 1 / whole.shape - np.log(values).mean()
    assert slope == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "0 positive values are too few; 10 are needed"),
        ([5.0], "1 positive values are too few; 10 are needed"),
        ([0.0] * 50, "0 positive values are too few; 10 are needed"),
        ([7.0] * 50, "1 distinct values are too few; 3 are needed"),
        (np.linspace(1e9, 1e9 + 1, 50), "the values hardly differ"),
    ],
)
def test_what_cannot_be_fitted_is_said(values, reason):
    found = fit_times(np.asarray(values, dtype=float))
    assert found.reason == reason
    assert found.models == () and found.chosen is None


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 9), st.floats(1e-6, 1e12)), max_size=80),
)
def test_nothing_crashes_and_every_number_is_finite(values):
    with np.errstate(all="raise", under="ignore", over="ignore", divide="ignore", invalid="ignore"):
        found = fit_times(np.sort(np.asarray(values, dtype=float)))
    assert found.values + found.zeros == len(values)
    for fit in found.models:
        assert np.isfinite([fit.log_likelihood, fit.aic]).all()
        assert 0 <= fit.ks <= 1


def test_another_unit_scales_times_and_changes_nothing_else():
    values = np.sort(np.concatenate([rng().lognormal(5, 1.5, 3000).round(1), [0.0, 0.0]]))
    seconds, hours = fit_times(values), fit_times(values * 3600)
    assert [fit.model for fit in seconds.models] == [fit.model for fit in hours.models]
    assert seconds.zeros == hours.zeros == values.size - seconds.values
    for one, other in zip(seconds.models, hours.models, strict=True):
        moved = one.log_likelihood - seconds.values * np.log(3600)
        assert other.log_likelihood == pytest.approx(moved, rel=1e-6)
        assert other.ks == pytest.approx(one.ks, abs=1e-3)
    assert hours.tail.threshold_s == pytest.approx(3600 * seconds.tail.threshold_s)
    assert hours.tail.index == pytest.approx(seconds.tail.index)


def test_philly_has_a_lognormal_body_and_a_pareto_tail(shared):
    raw = pl.read_csv(shared / "data/philly/philly_jobs_a.csv.gz").drop_nulls("timestamp")
    found = fit_times(np.sort(raw["duration"].cast(pl.Float64).to_numpy()))
    assert found.values + found.zeros == 55009
    assert found.best.model == "lognormal_pareto"
    assert 3600 < found.best.parameters["threshold_s"] < 4 * 3600
    assert 0.7 < found.best.parameters["index"] < 0.9
    assert found.best.ks < 0.06


def shapes():
    """Samples that are hard in different ways."""
    draw = rng()
    return {
        "huge spread": np.exp(draw.uniform(-30, 40, 3000)),
        "one outlier": np.append(draw.exponential(1, 500), 1e12),
        "nearly all equal": np.where(draw.random(2000) < 0.98, 60.0, draw.lognormal(5, 2, 2000)),
        "a narrow hump": 1e9 + draw.normal(0, 1e4, 500),
        "bounded above": draw.uniform(0, 1, 5000),
        "few values": draw.integers(1, 5, 300).astype(float),
        "steep": draw.weibull(8, 6000) * 100,
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", shapes())
def test_hard_samples_are_fitted_without_a_warning(name):
    found = fit_times(np.sort(shapes()[name]))
    assert len(found.models) >= 6
    for fit in found.models:
        assert np.isfinite(fit.log_likelihood) and 0 <= fit.ks <= 1
        assert (np.diff(fit.survival) <= 1e-12).all()


def test_the_picture_shows_the_data_and_the_models():
    from gpuplan.cli.figures.style import new_figure
    from gpuplan.cli.figures.workload import draw_fits

    found = fit_times(np.sort(rng().lognormal(5, 2, 2000)))
    (axes,) = new_figure().axes
    draw_fits(axes, found)
    data, best = axes.lines[:2]
    assert data.get_ydata()[0] == pytest.approx(1 - 1 / 2000) and data.get_ydata()[-1] > 0
    inside = found.best.survival > 0
    assert best.get_ydata() == pytest.approx(found.best.survival[inside])
    (empty,) = new_figure().axes
    draw_fits(empty, fit_times(np.zeros(5)))
    assert [text.get_text() for text in empty.texts] == ["no fit"]
