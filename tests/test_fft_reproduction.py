"""FFT's evaluation again: the worked examples, the traces and what the script prints of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuplan.planner.policies.mixed.fft import FftRules, round_costs
from gpuplan.planner.registry import POLICIES

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def script():
    """The module that replays the traces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield pytest.importorskip("benchmarks.reproduce_fft", reason="needs the repository")


@pytest.fixture(scope="module")
def traces(script):
    """The module that makes them."""
    from benchmarks import fft_traces

    return fft_traces


@pytest.fixture(scope="module")
def source(traces):
    """Jobs of `gpuplan synth`, as without ../shared."""
    return traces.workloads(Path("nowhere"))


@pytest.mark.parametrize(
    ("phi", "round_min", "total_min"),
    [("total", 1, 5.75), ("total", 2, 5.75), ("mixed", 1, 6.625)],
)
def test_two_jobs_of_section_2_3(script, phi, round_min, total_min):
    # total: the second moves up as the first ends, 2 + (2 + 14 / 8). mixed swaps them.
    assert script.two_jobs(phi, round_min) == pytest.approx(total_min, abs=1e-6)


@pytest.mark.parametrize(("switch_weight", "end_min"), [(5, 14.4), (1, 18.0), (0, 18.0)])
def test_figure_2_moves_only_where_it_pays(script, switch_weight, end_min):
    expected = pytest.approx([5.0, end_min, 15.0], abs=1e-6)
    assert script.figure_2("total", float(switch_weight)) == expected


def test_both_costs_are_shown_of_the_worked_examples(script):
    rows = list(script.example_rows())
    assert rows[0][1:] == ("5.75", "6.625", "5.75")
    assert [row[3] for row in rows[1:]] == ["18", "14.4"]
    from benchmarks.docs_tables import DOCS, section

    shown = section((DOCS / "fft.md").read_text(encoding="utf-8"), "fft-examples")
    assert all("| " + " | ".join(row) + " |" in shown for row in rows)


def test_a_short_job_costs_more_as_it_waits_among_many():
    """Half a round of work, a share of 1/20 of a GPU type: its debt overtakes its age late."""
    one, share = np.ones(1), 1 / 20
    costs, debt = [], 0.0
    for age in range(800):
        cost = round_costs(
            FftRules(), age=np.array([age]), width=np.array([1]), work=one / 2, left=one / 2,
            rate=np.ones((1, 1)), debt=np.array([debt]), last=np.array([-1]), copy_rounds=0 * one,
        )  # fmt: skip
        costs.append(float(cost[0, 0]))
        debt += age * share / 0.5 * share
    assert 190 < np.argmax(costs) < 210 and costs[300] > costs[0] > costs[500]


def test_durations_and_arrivals_are_those_of_philly(traces, shared):
    philly = traces.workloads(shared / "data" / "philly" / "philly_jobs_a.csv.gz")
    assert philly.name == "55,009 jobs of Philly"
    assert np.median(philly.duration_s) == 1800 and philly.duration_s.max() == 3_256_045
    check_a_trace(traces, philly)


def test_without_philly_jobs_are_like_it(traces, source):
    assert "synth --preset philly" in source.name
    assert source.submit_s.size == 20_000 and (np.diff(source.submit_s) >= 0).all()
    check_a_trace(traces, source)


def check_a_trace(traces, source):
    rule = traces.RULES["1"]
    jobs, factor = traces.draw(rule, source, 3)
    work, rates = jobs.workload, jobs.rates
    demand = (rates.work * work.gpus / rates.rate.mean(axis=1)).sum()
    assert demand == pytest.approx(1.1 * 36 * 48 * 3600)
    assert (work.gpus == 4).all() and work.submit_us[-1] == 48 * 3600 * 1_000_000
    known = np.sort(source.duration_s)
    at = np.minimum(np.searchsorted(known, rates.work / factor * (1 - 1e-9)), known.size - 1)
    assert np.allclose(known[at], rates.work / factor, rtol=1e-6)
    # Arrivals are those of consecutive jobs: their gaps, in one unit, are in the source.
    first = int(np.random.default_rng(3).integers(0, source.submit_s.size - 800))
    block = source.submit_s[first : first + 800] - source.submit_s[first]
    assert np.allclose(work.submit_us / work.submit_us[-1], block / block[-1], atol=1e-9)
    own, factor = traces.draw(replace(rule, keeps=True), source, 3)
    assert np.allclose(own.rates.work / factor, source.duration_s[first : first + 800])


def test_what_sets_traces_apart(traces, source):
    table, _ = traces.draw(traces.RULES["2"], source, 0)
    assert set(table.workload.gpus.tolist()) == {1, 2, 3, 4, 8}
    assert table.rates.details.state_gb.max() == pytest.approx(107.2)  # OPT-6.7B, as published
    narrow, _ = traces.draw(traces.RULES["9"], source, 0)
    assert narrow.rates.work.max() / narrow.rates.work.min() <= 3
    large, _ = traces.draw(traces.RULES["6"], source, 0)
    wide = (large.workload.gpus >= 4).mean()
    assert (table.workload.gpus >= 4).mean() + 0.05 < wide
    dense, _ = traces.draw(traces.RULES["7"], source, 0)
    spans = {n: traces.draw(rule, source, 0)[0] for n, rule in traces.RULES.items() if n in "3458"}
    ends = [jobs.workload.submit_us[-1] for jobs in spans.values()]
    assert dense.workload.submit_us[-1] < min(ends) and len(set(ends)) == 4


def test_every_baseline_is_printed_beside_both_costs(script, traces, source):
    rule = replace(traces.RULES["1"], jobs=40)
    results, factors = script.replay(rule, source, 2, tuple(script.RUNS))
    rows = list(script.policy_rows(results))
    assert [row[0] for row in rows] == list(script.RUNS) and len(factors) == 2
    assert len(script.COLUMNS) == len(rows[0]) and rows[0][1].endswith(" h")
    ours = results["fft, `total`"][1]["mean_jct_s"] / results["fft"][1]["mean_jct_s"]
    assert f"{ours:.2f}" in rows[1][1] and rows[1][2] == "1.00x"
    claims = [claim.row(results) for claim in script.CLAIMS]
    assert all(row[4] == "-" for row in claims if row[2] == "-")


@pytest.mark.parametrize(
    ("values", "verdict"), [([1.5, 1.41], "holds"), ([1.5, 1.39], "missed on 1 of 2 seeds")]
)
def test_a_gate_that_misses_is_printed_as_missed(script, values, verdict):
    results = {
        "fft": [{"mean_jct_s": 1.0}] * 2,
        "gavel sjf": [{"mean_jct_s": value} for value in values],
    }
    row = script.CLAIMS[0].row(results)
    assert row[2] == ">= 1.40x" and row[4] == verdict


def test_a_missed_gate_fails_the_run(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "workloads", lambda: None)
    for missed in ([], ["mean JCT, pal"]):
        monkeypatch.setattr(script, "sections", lambda _, bad=missed: [("name", "text", bad)])
        assert script.main([]) == len(missed)
    assert "missed: mean JCT, pal" in capsys.readouterr().out


def test_the_docs_have_the_rows_that_the_script_prints(script, traces):
    from benchmarks.docs_tables import DOCS, section

    page = (DOCS / "fft.md").read_text(encoding="utf-8")
    assert all(f"- {text}" in section(page, "fft-chosen") for text in traces.CHOSEN)
    for name in ("1", "1-own-durations", "2"):
        table = section(page, f"fft-trace-{name}")
        assert all(f"\n| {policy} | " in table for policy in script.RUNS)
    gates = section(page, "fft-gates")
    assert all(f"\n| {claim.what} | {claim.paper} | " in gates for claim in script.CLAIMS)
    simulated = section(page, "fft-simulated")
    assert all(f"\n| {n}: {traces.RULES[n].about} | " in simulated for n in "3456789")
    assert f"The default is `{POLICIES['fft'].defaults()['phi']}`" in section(page, "fft-default")


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [((1.01, 0.9), "total"), ((0.99, 1.1), "mixed"), ((0.9, 2.0), "total"), ((1.1, 0.5), "mixed")],
)
def test_the_default_is_the_faster_cost_and_among_ties_the_fairer(
    script, monkeypatch, ratios, expected
):
    from benchmarks import fft_default

    jct, rho = ratios
    runs = {
        "fft": {"mean_jct_s": 3600.0, "ftf_mean": 1.0},
        "fft, `total`": {"mean_jct_s": 3600.0 * jct, "ftf_mean": rho},
        "srtf": {"mean_jct_s": 3600.0, "ftf_mean": 1.0},
    }
    monkeypatch.setattr(fft_default, "_runs", lambda *_: [runs])
    best, rows, text = fft_default.choice()
    assert best == expected and f"`{expected}`." in text
    assert all(f"{jct:.2f}x" in row for row in rows)
    assert not set(fft_default.SEEDS) & set(range(max(script.SEEDS.values())))


def test_the_choice_of_the_default_draws_other_jobs(script, tmp_path):
    from benchmarks import fft_default

    jobs = fft_default.loaded(fft_default.helios(tmp_path, 100), 0.9, 100)
    demand = (jobs.rates.work * jobs.workload.gpus / jobs.rates.rate.mean(axis=1)).sum()
    assert demand == pytest.approx(0.9 * 48 * 40 * 3600)
    assert jobs.workload.size == fft_default.JOBS and jobs.workload.gpus.max() <= 8
    assert jobs.rates.gpu_types == ("k80", "p100", "v100")
