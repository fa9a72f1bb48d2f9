"""Plans for logs with waits: today's bill has them, and that of jobs that all start at once not."""

from types import SimpleNamespace

import numpy as np
import pytest
from support_plan import DAY, HOUR, MONTH_H, headline_of, refusal_of, results_of, texts_of
from support_traces import write_trace

from gpuplan.cli.formats.units import show_share
from gpuplan.cli.tables.plan_against_today import saving_between
from gpuplan.cli.tables.plan_tables import over_budget
from gpuplan.planner.plan.confirmation import failures
from gpuplan.planner.plan.uncertainty import PlanIntervals, PlanRange

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
PRICES = ("--commit", "1.2", "--on-demand", "1.29", "--provision-delay", "0")
OWNED = (*PRICES, "--owned", "A100=2")


@pytest.fixture
def queued(tmp_path):
    """24 days, each with three jobs of 2 GPUs and 6 h at its begin, one after the other."""
    return write_trace(
        tmp_path / "queued.parquet",
        [DAY * day for day in range(24) for _ in range(3)],
        [6 * HOUR] * 72,
        [2.0] * 72,
        gpu_type=["A100"] * 72,
        queue_s=[0.0, 6 * HOUR, 12 * HOUR] * 24,
    )


def test_the_headline_compares_with_todays_bill_and_names_the_other(gpuplan, queued):
    results, text = results_of(gpuplan, queued, *OWNED), headline_of(gpuplan, queued, *OWNED)
    # 2 GPUs owned are enough with waits; all at once 4 more are rented for 6 h a day
    window_h = 23 * 24 + 18
    assert results["today"]["usd_per_month"] == 0
    assert results["today"]["mean_wait_s"] == pytest.approx(6 * HOUR)
    usd = MONTH_H * 1.29 * 4 * 6 * 24 / window_h
    assert results["usd_per_month"] == pytest.approx(usd)
    assert "a month more than today, for 6 h less time per job" in text
    assert "renting all above the owned GPUs if every job started at once" in text


def test_todays_bill_in_shares_where_there_is_one(gpuplan, queued):
    text = headline_of(gpuplan, queued, *PRICES)
    # 6 GPUs for 6 h a day are as many GPU-hours as 2 for 18 h
    assert ", about the same as today, for 6 h less time per job" in text
    assert "all on demand if every job started at once" in text
    cheap = headline_of(gpuplan, queued, "--commit", "0.3", *PRICES[2:])
    assert "less than today's $" in cheap and "for 6 h less time per job" in cheap


def test_dollars_and_markets_under_a_cap_are_those_of_the_replay(gpuplan, queued):
    words = (*OWNED, "--cluster", "4", "--release-delay", "0")
    results = results_of(gpuplan, queued, *words)
    window_h = 23 * 24 + 18
    rented = next(use for use in results["markets"] if use["name"] == "on_demand")
    # two jobs at once, and the third on the GPUs owned: 2 are rented for 6 h a day
    assert results["is_capped"] is True
    assert (rented["peak_gpus"], rented["peak_s"]) == (2, 0)
    assert rented["mean_gpus"] == pytest.approx(2 * 6 * 24 / window_h)
    assert rented["time_share"] == pytest.approx(6 * 24 / window_h)
    assert results["usd_per_month"] == pytest.approx(MONTH_H * 1.29 * rented["mean_gpus"])
    assert results["usd_per_month"] == results["replay"]["usd_per_month"]
    assert results["confirmed"] is True
    # the first part has 17 of these days in 70% of the time
    first = MONTH_H * 1.29 * 2 * 6 * 17 / (0.7 * window_h)
    assert results["holdout"]["capped_usd_per_month"] == pytest.approx(first)
    # of the program's 4 GPUs that are rented; its bins hide a little
    assert results["holdout"]["capped_share"] == pytest.approx(0.5, rel=0.01)
    (decision,) = [row for row in results["decisions"] if row["name"] == "on_demand"]
    assert decision["time_share"] == rented["time_share"]
    text = headline_of(gpuplan, queued, *words)
    assert "than the program" not in text
    assert "If no job waited under the cap, it would cost $952.26 a month." in text


def test_a_cap_that_is_owned_rents_nothing(gpuplan, queued):
    text = headline_of(gpuplan, queued, *OWNED, "--cluster", "2")
    assert text.startswith("The 2 GPUs owned are enough: no GPU needs to be bought or rented.")
    results = results_of(gpuplan, queued, *OWNED, "--cluster", "2")
    assert results["usd_per_month"] == 0 and results["confirmed"] is True


def test_owned_gpus_that_make_jobs_wait_are_not_called_enough(gpuplan, tmp_path):
    """One GPU for two jobs at a time, which ran side by side: the second one waits 6 h."""
    path = write_trace(
        tmp_path / "pairs.parquet",
        [DAY * day for day in range(24) for _ in range(2)],
        [6 * HOUR] * 48,
        gpu_type=["A100"] * 48,
        queue_s=[0.0] * 48,
    )
    words = ("--owned", "A100=1", "--cluster", "1", "--slower", "none", "--holdout", "40%")
    text = headline_of(gpuplan, path, *PRICES, *words)
    said = "With the 1 GPU owned alone nothing is bought or rented, for 3 h more time per job."
    assert text.startswith(said)


def test_a_cap_over_the_peak_changes_nothing(gpuplan, queued):
    free = results_of(gpuplan, queued, *OWNED)
    capped = results_of(gpuplan, queued, *OWNED, "--cluster", "6")
    assert capped["is_capped"] is False
    assert capped["markets"] == free["markets"]
    assert capped["usd_per_month"] == free["usd_per_month"]


def test_a_cap_that_a_target_chose_is_in_the_dollars(gpuplan, queued):
    results = results_of(gpuplan, queued, *OWNED, "--target", "p95_wait <= 7h")
    (cap,) = [cap for cap in results["caps"] if cap["is_chosen"]]
    assert cap["gpus"] < 6 and results["is_capped"] is True
    assert results["usd_per_month"] == results["replay"]["usd_per_month"]
    assert sum(use["usd_per_month"] for use in results["markets"]) == results["usd_per_month"]


def test_a_budget_under_the_plan_without_waits_says_how_jobs_may_wait(gpuplan, queued):
    code, _, err = gpuplan("plan", queued, *OWNED, "--budget", "$500/month")
    assert code == 4
    assert "if no job may wait, the cheapest plan costs $945 a month" in err
    assert "or --cluster A100=COUNT, which lets jobs wait for fewer GPUs" in err


def test_a_budget_is_that_of_the_replay_under_a_cap(gpuplan, queued):
    words = (*OWNED, "--cluster", "4", "--release-delay", "0")
    results = results_of(gpuplan, queued, *words, "--budget", "$480/month")
    assert results["usd_per_month"] == pytest.approx(476.13, abs=0.01)
    code, _, err = gpuplan("plan", queued, *words, "--budget", "$400/month")
    assert code == 4
    assert "under --cluster the cheapest plan costs $476 a month in the replay" in err
    assert "next: --budget '$477/month', or a smaller --cluster" in err


def test_a_plan_that_rents_all_is_as_dear_as_renting_all(gpuplan, tmp_path):
    rng = np.random.default_rng(5)
    submit, run = np.sort(rng.uniform(0, 70 * DAY, 300)), rng.exponential(HOUR, 300)
    path = write_trace(
        tmp_path / "short.parquet", submit, run, [4.0] * 300, gpu_type=["A100"] * 300
    )
    words = (path, "--owned", "A100=3", "--commit", "1.2", "--on-demand", "1.29")
    results, text = results_of(gpuplan, *words), headline_of(gpuplan, *words)
    assert results["on_demand_usd_per_month"] == pytest.approx(results["usd_per_month"], rel=1e-9)
    saving = results["intervals"]["saving_over_on_demand_share"]
    assert (saving["low"], saving["high"]) == pytest.approx((0, 0), abs=1e-9)
    assert "about the same as renting all above the owned GPUs as recorded. Mean" in text


def test_no_share_is_less_than_nothing_by_nothing():
    assert (show_share(-0.0004), show_share(0.0004)) == ("0.0%", "0.0%")
    assert (show_share(-0.0006), show_share(-0.123)) == ("-0.1%", "-12.3%")


def test_gpus_of_today_are_those_of_jobs_after_their_waits(gpuplan, queued):
    today = results_of(gpuplan, queued, *OWNED)["today"]
    assert today["peak_gpus"] == 2  # one job after the other
    assert today["mean_gpus"] == pytest.approx(2 * 18 * 24 / (23 * 24 + 18))


def test_the_saving_over_today_can_be_gated(gpuplan, queued):
    words = (queued, "--commit", "0.3", *PRICES[2:])
    results = results_of(gpuplan, *words)
    saving = 1 - results["usd_per_month"] / results["today"]["usd_per_month"]
    assert saving > 0.05 and results["saving_share"] == pytest.approx(0)
    assert results["saving_over_today_share"] == pytest.approx(saving)
    code, _, err = gpuplan("plan", *words, "--fail-if", "saving_over_today_share < 5%")
    assert code == 0, err
    code, _, err = gpuplan(
        "plan", *words, "--fail-if", f"saving_over_today_share < {saving + 0.01}"
    )
    assert code == 1 and "saving_over_today_share" in err
    assert results_of(gpuplan, queued, *OWNED)["saving_over_today_share"] is None  # of nothing


def test_less_than_a_day_is_not_held_out(gpuplan, queued):
    code, _, err = gpuplan("plan", queued, *OWNED, "--holdout", "0.01%")
    assert code == 2
    assert "--holdout 0.01%: that is" in err and "expected a day at least" in err
    # a day is 4.2% of 23.75 days
    assert "next: --holdout 5% or more, or 0% to hold out nothing" in err
    assert gpuplan("plan", queued, *OWNED, "--holdout", "5%")[0] == 0


def test_a_saving_that_did_not_hold_is_not_confirmed(gpuplan, tmp_path):
    """4 GPUs are in use for 20 days and 1 for 10 more: a commitment to 4 saves only at first."""
    submit = [DAY * day for day in range(30) for _ in range(4 if day < 20 else 1)]
    path = write_trace(tmp_path / "falling.parquet", submit, [DAY] * len(submit))
    words = (path, "--commit", "0.8", "--on-demand", "1.29")
    results, text = results_of(gpuplan, *words), headline_of(gpuplan, *words)
    assert results["confirmed"] is True and results["holdout"]["saved"] is False
    assert results["saving_over_today_share"] > 0.05
    assert ": its cost held on the last 30% of the log, its saving did not: all on" in text
    assert "confirmed" not in text
    code, _, err = gpuplan("plan", *words, "--fail-if", "holdout.saved == false")
    assert code == 1 and "holdout.saved" in err


def test_a_plan_that_costs_more_than_today_says_so_of_the_part_held_out(gpuplan, queued):
    text = headline_of(gpuplan, queued, *OWNED)
    assert (
        "confirmed; renting all above the owned GPUs as recorded would have cost less there" in text
    )
    saved = results_of(gpuplan, queued, "--commit", "0.3", *PRICES[2:])["holdout"]["saved"]
    assert saved is True


def test_a_plan_for_nothing_saves_all_of_todays_bill(gpuplan, tmp_path):
    """2 GPUs owned, of 2 jobs a day one after the other, but the first two ran side by side."""
    path = write_trace(
        tmp_path / "once.parquet",
        [DAY * day for day in range(24) for _ in range(2)],
        [6 * HOUR] * 48,
        [2.0] * 48,
        gpu_type=["A100"] * 48,
        queue_s=[0.0, 0.0] + [0.0, 6 * HOUR] * 23,
    )
    text = headline_of(gpuplan, path, *OWNED, "--cluster", "2", "--holdout", "0%")
    assert "for $0.00 a month, owned GPUs left out, 100.0% less than today's $20.05" in text


def test_work_that_a_cap_puts_off_until_after_the_log_is_paid(gpuplan, tmp_path):
    """Two jobs of 10 days are there at once; on one GPU the second runs after the log's end."""
    path = write_trace(tmp_path / "two.parquet", [0.0, 0.0], [10 * DAY] * 2)
    words = (path, "--on-demand", "1", "--commit", "5", "--provision-delay", "0")
    words = (*words, "--release-delay", "0", "--cluster", "1")
    results, text = results_of(gpuplan, *words), headline_of(gpuplan, *words)
    assert results["usd_per_month"] == pytest.approx(2 * MONTH_H)  # as without the cap
    assert results["replay"]["usd_per_month"] == results["usd_per_month"]
    assert results["cost_steps"][-1]["usd_per_month"] == results["usd_per_month"]
    assert sum(use["usd_per_month"] for use in results["markets"]) == results["usd_per_month"]
    (cap,) = [cap for cap in results["caps"] if cap["is_chosen"]]
    assert cap["usd_per_month"] == pytest.approx(results["usd_per_month"])
    assert results["replay"]["drain_s"] == pytest.approx(10 * DAY)
    assert "about the same as all on demand as recorded" in text
    assert "under --cluster the cheapest plan costs $1,461 a month" in refusal_of(
        gpuplan, 4, *words, "--budget", "$1400/month"
    )


def test_the_end_of_jobs_after_the_log_is_told(gpuplan, tmp_path):
    """One GPU is committed to and takes both jobs; the second one is not on demand then."""
    path = write_trace(tmp_path / "two.parquet", [0.0, 0.0], [10 * DAY] * 2)
    words = (path, "--on-demand", "1", "--commit", "0.5", "--cluster", "1")
    results, text = results_of(gpuplan, *words), headline_of(gpuplan, *words)
    assert results["usd_per_month"] == pytest.approx(2 * 0.5 * MONTH_H)  # for twice the time
    late = "Jobs that wait run on for 10 d after the log: the dollars count that time too"
    assert f"If no job waited under the cap, it would cost $1,100 a month. {late}" in text
    free = results_of(gpuplan, path, *words[1:-2])
    assert free["replay"]["drain_s"] == 0 and free["is_capped"] is False


def test_a_range_of_savings_says_more_and_less_as_its_saving_does():
    def words(low, high, saving, failed=0):
        none = PlanRange(0.0, 0.0)
        intervals = PlanIntervals(20, failed, 5, True, 604_800.0, (), none, none, None, None)
        return saving_between(intervals, PlanRange(low, high), saving)

    of = " in 20 resamples of its weeks)"
    assert words(0.1, 0.2, 0.15) == f" (10.0 to 20.0%{of}"
    assert words(-1.872, -0.601, -0.979) == f" (60.1 to 187.2%{of}"  # more than
    assert words(-0.02, 0.03, 0.01) == f" (2.0% more to 3.0% less{of}"
    assert words(0.001, 0.02, 0.001) == f" (0.1 to 2.0% less{of}"  # about the same as
    assert words(-0.02, -0.001, 0.0) == f" (0.1 to 2.0% more{of}"
    assert words(-0.001, 0.002, 0.0) == ""
    of = " in 15 of 20 resamples of its weeks; no plan meets the limits in the others)"
    assert words(0.1, 0.2, 0.15, failed=5) == f" (10.0 to 20.0%{of}"


def test_what_was_not_replayed_for_a_target_need_not_meet_it(gpuplan, tmp_path):
    """Jobs of 2 h one after the other: each waits 90 s for a rented GPU."""
    path = write_trace(tmp_path / "t.parquet", [4 * HOUR * n for n in range(180)], [2 * HOUR] * 180)
    words = (path, "--commit", "0.9", "--on-demand", "1.29", "--target", "p95_wait <= 10s")
    text = headline_of(gpuplan, *words)
    assert "more than all on demand as recorded, which need not meet the target" in text
    (row,) = [r for r in results_of(gpuplan, *words)["decisions"] if r["name"] == "committed"]
    assert row["is_for_target"] is True  # no dollars ask for a GPU in use half of the time
    assert "need not" not in headline_of(gpuplan, *words[:-2])
    (row,) = [r for r in results_of(gpuplan, *words[:-2])["decisions"] if r["name"] == "committed"]
    assert row["is_for_target"] is False


def test_what_a_plan_with_terms_is_compared_with_has_them(gpuplan, tmp_path):
    """6 GPUs are committed to for a year, of which a longer log needs 2."""
    file = tmp_path / "plan.toml"
    words = ("--commit", "0.9:1y,0.8:3y", "--on-demand", "1.29")
    first = write_trace(tmp_path / "a.parquet", [DAY * n for n in range(5)], [DAY] * 5, [6.0] * 5)
    assert gpuplan("plan", first, *words, "-o", file)[0] == 0
    longer = write_trace(tmp_path / "b.parquet", [DAY * n for n in range(8)], [DAY] * 8, [2.0] * 8)
    text, _ = texts_of(gpuplan, longer, "--keep", file)
    assert "as renting all above the commitments that go on as recorded." in text
    assert "6 in every resample; for 3 years" in text
    assert "for 1 year" not in text  # nothing is bought for it


def test_demand_that_falls_under_a_cap_is_no_failure(gpuplan, tmp_path):
    """Three jobs a day wait for 4 GPUs, and in the part held out one a day, for less money."""
    days = [day for day in range(30) for _ in range(3 if day < 21 else 1)]
    path = write_trace(
        tmp_path / "falls.parquet", [DAY * day for day in days], [6 * HOUR] * 72, [2.0] * 72
    )
    words = (path, "--commit", "1.2", "--on-demand", "1.29", "--cluster", "4")
    results = results_of(gpuplan, *words)
    assert results["is_capped"] is True and results["confirmed"] is True
    holdout = results["holdout"]
    assert holdout["plan"]["usd_per_month"] < holdout["capped_usd_per_month"] / 2


def test_dollars_under_a_cap_lie_between_the_programs_and_their_share():
    def failed(usd, share):
        plan = SimpleNamespace(usd_per_month=usd, program_usd_per_month=100.0)
        part = SimpleNamespace(plan=plan, capped_share=share, share=0.3, value_s=None)
        part.target_s = None
        return failures(part, None)

    for usd, share in ((109, None), (91, None), (46, 0.5), (75, 0.5), (109, 0.5), (129, 1.2)):
        assert failed(usd, share) == []
    (low,), (high,) = failed(44, 0.5), failed(112, 0.5)
    assert "-12% against the $50 expected under the cap" in low
    assert "+12% against the program's $100" in high
    assert "-11% against the program's $100" in failed(89, None)[0]


def test_a_plan_over_its_budget_says_so():
    def words(usd, is_capped=False):
        results = SimpleNamespace(usd_per_month=usd, is_capped=is_capped)
        return over_budget(results, "$60000/month")

    assert words(59_000.0) == words(60_200.0) == ""
    assert (
        words(62_000.0)
        == ", 3.3% over the budget of $60,000 since jobs split less evenly than shares"
    )
    capped = ", 10.0% over the budget of $60,000 in the replay under the cap"
    assert words(66_000.0, is_capped=True) == capped
