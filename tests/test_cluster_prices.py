"""What a cluster costs under a price book: GPUs owned and committed in any case, others above."""

from dataclasses import replace

import numpy as np
import pytest
from support_answers import command_results
from support_kueue import cluster_queue, write_list
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.tables.commitment_tables import show_dollars
from gpuplan.planner.money.cluster_prices import ClusterPrices
from gpuplan.planner.money.pool_texts import parse_pools
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.simkit.run import Leases

HOUR, DAY = 3600.0, 86400.0
HOUR_US = 3_600_000_000
OWNED = ("--owned", "A100=2@0.5", "--commit", "H100=1@1.5", "--price", "A100=2,H100=4")


def prices_of(**gpu_h):
    request = PriceRequest(
        usd_per_gpu_h={"A100": 2.0, "H100": 4.0}, owned=parse_pools(["A100=2@0.5"], "--owned")
    )
    return ClusterPrices(Prices.read(request), gpu_h or {"A100": 1.0, "H100": 1.0})


@pytest.mark.parametrize(
    ("gpus", "usd"),
    [
        ({"A100": 3}, 1 + 2),
        ({"A100": 1}, 1),  # an owned GPU that no cluster has costs too
        ({"H100": 2}, 1 + 2 * 4),
        ({"A100": 3, "H100": 2}, 1 + 2 + 2 * 4),
        ({None: 5}, 1 + 3 * 3),
        ({None: 1, "H100": 1}, 1 + 4),
    ],
)
def test_owned_gpus_take_the_place_of_those_of_their_type(gpus, usd):
    assert prices_of().usd_per_h(gpus) == pytest.approx(usd)


def test_gpus_of_any_type_are_those_of_the_jobs():
    assert prices_of(H100=1.0).usd_per_h({None: 5}) == pytest.approx(1 + 5 * 4)
    assert prices_of(A100=1.0).usd_per_h({None: 5}) == pytest.approx(1 + 3 * 2)


def test_types_without_a_price_are_an_error_or_have_the_mean_price():
    prices = prices_of()
    with pytest.raises(UsageError, match="T4 has no price"):
        prices.usd_per_h({"T4": 1})
    assert prices.usd_per_h({"T4": 1}, or_mean=True) == 1 + 3
    assert prices.unpriced({"A100": 9, "T4": 1, None: 3}) == ["T4"]
    owned = PriceRequest(owned=parse_pools(["T4=4"], "--owned"), usd_per_gpu_h={"A100": 2.0})
    prices = ClusterPrices(Prices.read(owned), {"A100": 1.0})
    assert prices.unpriced({"T4": 4}) == [] and prices.usd_per_h({"T4": 4}) == 0
    assert prices.unpriced({"T4": 5}) == ["T4"]
    assert prices.usd_per_h({"T4": 5}, or_mean=True) == 2


def test_a_pool_is_not_counted_for_two_types():
    request = PriceRequest(usd_per_gpu_h={"": 2.0}, owned=parse_pools(["A100=4@0.5"], "--owned"))
    prices = ClusterPrices(Prices.read(request), {"A100-80GB": 1.0})
    assert prices.usd_per_h({"A100-80GB": 4}) == 2
    with pytest.raises(UsageError, match="A100"):
        prices.usd_per_h({"A100-80GB": 4, "A100-40GB": 4})


def test_what_is_above_the_pools_alone():
    prices = replace(prices_of(), pays_pools=False)
    assert prices.usd_per_h({"A100": 3, "H100": 1}) == 2 + 4
    leases = Leases(np.array([0]), np.array([HOUR_US]), np.array([5]))
    assert prices.leases_usd(leases, (0, 9 * HOUR_US)) == pytest.approx(3 * 3)


def test_rented_gpus_cost_what_is_above_those_owned():
    # 1 GPU for an hour, 4 for the second, none for the third, 3 for the fourth, none until 10.
    begin, end = np.array([0, 1, 3]) * HOUR_US, np.array([2, 2, 4]) * HOUR_US
    leases = Leases(begin, end, np.array([1, 3, 3]))
    window = (-HOUR_US, 9 * HOUR_US)
    usd = 10 * 1 + (2 + 1) * 3
    assert prices_of().leases_usd(leases, window) == pytest.approx(usd)
    empty = np.array([], np.int64)
    assert prices_of().leases_usd(Leases(empty, empty, empty), window) == 10
    # A lease that outlasts the window is paid to its end, and so is what is owned.
    assert prices_of().leases_usd(leases, (0, HOUR_US)) == pytest.approx(4 * 1 + 3 * 3)


@pytest.fixture
def log(tmp_path):
    return write_trace(
        tmp_path / "t.parquet", [0.0, DAY], [2 * DAY, DAY], num_gpus=[2.0, 1.0],
        queue_s=[0.0, 0.0], gpu_type=["A100", "H100"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("book", "gpus", "usd"),
    [
        (("--owned", "H100=1@1.5"), 1, 1.5),
        (("--owned", "A100=2@0.5"), 2, 2 * 0.5),
        (("--owned", "A100=2@0.5"), 5, 1 + 3 * 2),
    ],
)
def test_compare_pays_a_cluster_as_size_does(gpuplan, log, book, gpus, usd):
    gpu_type = book[1].partition("=")[0]
    where = ("--where", f"gpu_type = '{gpu_type}'")
    words = (*where, "--gpus", gpus, *book, "--price", "A100=2,H100=4")
    (row,) = command_results(gpuplan, "compare", log, "--policy", "fifo", *words)["policies"]
    assert row["usd_per_month"] == pytest.approx(usd * MONTH_H)
    (size,) = command_results(gpuplan, "size", log, *words)["points"]
    assert size["usd_per_month"] == row["usd_per_month"]


def test_a_cluster_of_named_types_pays_each(gpuplan, log):
    words = (
        "--cluster",
        "A100=1x4,H100=1x2",
        "--policy",
        "gavel",
        "--gpu-speed",
        "A100=1,H100=2",
        *OWNED,
    )
    found = command_results(gpuplan, "compare", log, *words)
    usd = 2 * 0.5 + 2 * 2 + 1.5 + 1 * 4
    assert found["policies"][0]["usd_per_month"] == pytest.approx(usd * MONTH_H)


def test_gpus_of_several_types_as_one_pay_the_mean_above(gpuplan, log):
    found = command_results(gpuplan, "simulate", log, "--policy", "fifo", "--gpus", "6", *OWNED)
    usd = 2 * 0.5 + 1.5 + 3 * (96 * 2 + 24 * 4) / 120
    assert found["usd_per_month"] == pytest.approx(usd * MONTH_H)
    assert found["mean_usd_per_gpu_h"] == pytest.approx(usd / 6)


def test_what_an_owned_gpu_earns_as_spot_is_a_share_of_its_price(gpuplan, tmp_path):
    log = write_trace(
        tmp_path / "l.parquet", [0.0, 10.0], [HOUR, HOUR], num_gpus=[2.0, 2.0],
        priority=["hp", "spot"], gpu_type=["A100"] * 2,
    )  # fmt: skip
    words = ("--policy", "gfs", "--cluster", "1x8", "--price", "2")
    usd = [command_results(gpuplan, "simulate", log, *words, *owned)["spot_usd_per_gpu_h"]
           for owned in ((), ("--owned", "A100=8@0.1"))]  # fmt: skip
    assert usd == pytest.approx([0.6, 0.6])


@pytest.mark.compiled
def test_todays_cluster_pays_what_the_policy_of_its_site_pays(gpuplan, tmp_path):
    site = write_list(tmp_path / "s.json", [cluster_queue("q", flavors={"h100": 8, "a100": 8})])
    log = write_trace(
        tmp_path / "t.parquet", [0, 0, 100], [1000.0, 1000.0, 10.0], [8.0, 8.0, 1.0],
        group=["x"] * 3, queue_s=[0.0, 1000.0, 0.0], gpu_type=["H100", "H100", "A100"],
    )  # fmt: skip
    words = ("--site", site, "--price", "H100=3,A100=1", "--owned", "H100=6@0.5")
    found = command_results(gpuplan, "compare", log, "--policy", "kueue", *words)
    usd = (6 * 0.5 + 2 * 3 + 8 * 1) * MONTH_H
    assert found["policies"][0]["usd_per_month"] == pytest.approx(usd)
    assert found["today_cluster"] == {"gpus": 16, "usd_per_month": pytest.approx(usd)}


def test_the_cluster_around_the_clock_of_a_sweep_costs_the_same(gpuplan, log):
    words = ("--threshold", "60", "--set", "serverless_usd_per_gpu_h=5", "--cluster", "6")
    found = command_results(gpuplan, "sweep", log, *words, *OWNED)["today_cluster"]
    usd = 2 * 0.5 + 1.5 + 3 * (96 * 2 + 24 * 4) / 120
    assert found["usd_per_month"] == pytest.approx(usd * MONTH_H)
    assert found["usd_per_gpu_h"] == pytest.approx(usd / 6)


def usd_of(gpuplan, study, log, *words):
    found = command_results(gpuplan, study, log, *words)
    return found["policies"][0]["usd_per_month"] if study == "compare" else found["usd_per_month"]


@pytest.mark.parametrize(
    ("gpus", "words", "usd"),
    [
        (4, ("--owned", "A100=4", "--price", "2"), 0),  # at no cost
        (6, ("--owned", "A100=4", "--price", "2"), 2 * 2),
        (4, ("--owned", "A100=4@0.5"), 2),  # nothing is pay-per-use
    ],
)
def test_what_is_owned_needs_no_other_price(gpuplan, log, gpus, words, usd):
    words = ("--where", "gpu_type = 'A100'", "--gpus", gpus, "--policy", "fifo", *words)
    assert usd_of(gpuplan, "compare", log, *words) == pytest.approx(usd * MONTH_H)
    assert usd_of(gpuplan, "simulate", log, *words) == pytest.approx(usd * MONTH_H)


def test_gpus_above_those_owned_need_a_price(gpuplan, log):
    words = ("--where", "gpu_type = 'A100'", "--gpus", "6", "--policy", "fifo")
    code, _, err = gpuplan("compare", log, *words, "--owned", "A100=4@0.5")
    assert code == 2 and "no price" in err and "next:" in err


def test_owned_gpus_without_a_job_cost_the_same_in_size_and_compare(gpuplan, log):
    words = ("--where", "num_gpus >= 2", "--gpus", "4", "--price", "A100=2,H100=4")
    (size,) = command_results(gpuplan, "size", log, *words)["points"]
    assert size["usd_per_month"] == pytest.approx(4 * 2 * MONTH_H)
    one = write_trace(
        log.parent / "one.parquet", [0.0, DAY], [2 * DAY, DAY], num_gpus=[2.0, 1.0],
        queue_s=[0.0, 0.0], gpu_type=["A100", "A100"],
    )  # fmt: skip
    words = ("--gpus", "4", "--price", "A100=2,H100=4", "--owned", "H100=4@1")
    (size,) = command_results(gpuplan, "size", one, *words)["points"]
    assert size["usd_per_month"] == pytest.approx((4 * 1 + 4 * 2) * MONTH_H)
    usd = usd_of(gpuplan, "compare", one, "--policy", "fifo", *words)
    assert usd == pytest.approx(size["usd_per_month"])


def test_owned_gpus_replace_those_of_the_book_in_size_too(gpuplan, log, tmp_path):
    book = tmp_path / "book.toml"
    book.write_text(
        '[[owned]]\ngpu_type = "A100"\ngpus = 4\nusd_per_gpu_h = 0.5\n'
        '[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 2.0\n'
        '[[price]]\ngpu_type = "H100"\nkind = "on_demand"\nusd_per_gpu_h = 4.0\n'
    )
    words = ("--contracts", book, "--owned", "A100=3")
    billed = command_results(gpuplan, "bill", log, *words)
    sized = command_results(gpuplan, "size", log, *words, "--gpus", "4")
    assert sized["today"]["usd_per_month"] == pytest.approx(billed["usd_per_month"], abs=0.0051)


def test_policies_that_grow_pay_what_is_owned_all_the_time(gpuplan, tmp_path):
    log = write_trace(tmp_path / "w.parquet", [0.0], [DAY], num_gpus=[1.0], queue_s=[3 * DAY],
                      gpu_type=["A100"])  # fmt: skip
    words = ("--owned", "A100=2@0.5", "--price", "2", "--policy", "fixed-width")
    assert usd_of(gpuplan, "simulate", log, *words) == pytest.approx(2 * 0.5 * MONTH_H)


@pytest.mark.parametrize("words", [("--price", "A100=2,H100=4"), OWNED])
def test_a_book_prices_the_window_of_the_run(gpuplan, log, words):
    words = ("--policy", "fifo", "--gpus", "4", "--window", "run", *words)
    found = command_results(gpuplan, "compare", log, *words)
    mean = (96 * 2 + 24 * 4) / 120
    usd = 4 * mean if "--owned" not in words else 2 * 0.5 + 1.5 + mean
    assert found["policies"][0]["mean_usd_per_gpu_h"] == pytest.approx(usd / 4)


def test_what_rents_beside_owned_gpus_is_not_called_cheaper(gpuplan, log):
    words = ("--policy", "fifo", "--policy", "serverful-only", "--gpus", "4", *OWNED)
    found = command_results(gpuplan, "compare", log, *words)
    assert found["cheapest"] is None and found["fastest"] is not None
    assert [row["non_dominated"] for row in found["policies"]] == [False, False]
    code, out, err = gpuplan("compare", log, *words)
    text = " ".join(out.split())
    assert code == 0 and "None is called the cheapest: serverful-only" in text
    assert "per job" in text and "no faster" not in text
    due = "the cost of serverful-only leaves out GPUs owned and committed to: their $1,826 a month"
    assert due in " ".join(err.split())
    # Where all rent beside them, the answer has the sum.
    alone = gpuplan("compare", log, "--policy", "serverful-only", *OWNED)[1]
    sum_due = "The $1,830 a month of GPUs owned and committed to are due on top of that."
    assert sum_due in " ".join(alone.split())
    words = ("--policy", "fifo", "--policy", "srtf:usd_per_gpu_h=0.1", "--gpus", "4", *OWNED)
    found = command_results(gpuplan, "compare", log, *words)
    assert found["cheapest"] is None  # the price that was set leaves them out as well
    words = ("--threshold", "60", "--set", "serverless_usd_per_gpu_h=5", *OWNED)
    code, _, err = gpuplan("sweep", log, *words)
    assert code == 0 and f"the ${2.5 * MONTH_H:,.0f} a month of GPUs owned" in " ".join(err.split())


def test_a_sweep_counts_what_a_policy_pays_above_owned_gpus(gpuplan, log):
    words = ("--threshold", "60", "--set", "serverless_usd_per_gpu_h=5", *OWNED)
    against = ("--against", "fifo:gpus=6")
    found = command_results(gpuplan, "sweep", log, *words, *against)
    usd = 3 * (96 * 2 + 24 * 4) / 120
    assert found["against"]["usd_per_month"] == pytest.approx(usd * MONTH_H)
    _, _, err = gpuplan("sweep", log, *words, *against)
    assert "--against counts only what it pays above them" in " ".join(err.split())


def test_a_sweep_names_the_price_that_its_rows_have(gpuplan, log):
    words = ("sweep", log, "--threshold", "60", "--price", "A100=2,H100=4",
             "--set", "serverless_usd_per_gpu_h=5")  # fmt: skip
    _, _, err = gpuplan(*words)
    assert "one type for all, at $2.40 per GPU-hour on demand, the mean" in " ".join(err.split())
    _, _, err = gpuplan(*words, "--set", "conventional_usd_per_gpu_h=9")
    assert "the mean of their prices" not in " ".join(err.split())


def test_a_type_of_a_cluster_needs_a_price(gpuplan, log):
    words = ("--threshold", "60", "--set", "serverless_usd_per_gpu_h=5", "--cluster", "T4=4")
    code, _, err = gpuplan("sweep", log, *words, "--price", "A100=2,H100=4")
    assert code == 2 and "T4 has no price" in err
    code, _, err = gpuplan("size", log, "--gpus", "4", "--owned", "A100=4@0.5")
    assert code == 2 and "no price" in err


def test_jobs_without_run_time_pay_their_types(gpuplan, tmp_path):
    log = write_trace(tmp_path / "z.parquet", [0.0, 60.0], [0.0, 0.0], num_gpus=[2.0, 1.0],
                      gpu_type=["A100", "A100"])  # fmt: skip
    words = ("--policy", "fifo", "--gpus", "4", "--owned", "A100=4@0.5")
    assert usd_of(gpuplan, "compare", log, *words, "--price", "A100=2") == 2 * MONTH_H
    assert usd_of(gpuplan, "compare", log, *words, "--price", "2") == 2 * MONTH_H


def test_lending_pays_the_pools_that_have_jobs_and_what_is_owned(gpuplan, tmp_path):
    log = write_trace(
        tmp_path / "l.parquet", [0.0, 10.0], [HOUR, HOUR], num_gpus=[2.0, 2.0],
        priority=["hp", "spot"], gpu_type=["A100"] * 2,
    )  # fmt: skip
    words = ("--policy", "gfs", "--cluster", "A100=1x8,H100=1x8", "--price", "A100=2,H100=4")
    usd = usd_of(gpuplan, "simulate", log, *words, "--owned", "H100=8@1")
    assert usd == pytest.approx((8 * 1 + 8 * 2) * MONTH_H)


@pytest.mark.compiled
def test_gpus_that_only_untyped_jobs_use_cost_the_mean(gpuplan, tmp_path):
    site = write_list(tmp_path / "s.json", [cluster_queue("q", flavors={"h100": 8, "a100": 8})])
    log = write_trace(
        tmp_path / "t.parquet", [0, 0, 100], [1000.0, 1000.0, 10.0], [8.0, 1.0, 1.0],
        group=["x"] * 3, queue_s=[0.0, 0.0, 0.0], gpu_type=["H100", None, None],
    )  # fmt: skip
    words = ("--site", site, "--policy", "kueue", "--owned", "H100=8@1")
    usd = usd_of(gpuplan, "compare", log, *words, "--price", "H100=4,unknown=2")
    mean = (8000 * 4 + 1010 * 2) / 9010
    assert usd == pytest.approx((8 * 1 + 8 * mean) * MONTH_H)


def test_a_sweep_of_jobs_without_run_time_has_no_cluster(gpuplan, tmp_path):
    log = write_trace(tmp_path / "z.parquet", [0.0, 1.0], [0.0, 0.0], num_gpus=[2.0, 1.0])
    words = ("--threshold", "60", "--price", "2", "--set", "serverless_usd_per_gpu_h=5")
    assert command_results(gpuplan, "sweep", log, *words)["today_cluster"] is None


def test_the_cluster_of_a_sweep_has_the_price_of_its_type(gpuplan, log):
    words = ("--threshold", "60", "--set", "serverless_usd_per_gpu_h=5", "--cluster", "H100=4")
    found = command_results(gpuplan, "sweep", log, *words, "--price", "A100=2,H100=4")
    assert found["today_cluster"]["usd_per_gpu_h"] == 4


@pytest.fixture
def dated(tmp_path):
    """A book of one owned A100, and a price that rises within the log of 48 h."""
    path = tmp_path / "dated.toml"
    text = '[[owned]]\ngpu_type = "A100"\ngpus = 1\nusd_per_gpu_h = 0.5\n'
    for usd, begin in ((2, ""), (3, "from = 2024-03-02\n")):
        text += f'[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = {usd}\n{begin}'
    path.write_text(text)
    return path


def test_size_tells_the_bill_of_today_from_the_cost_of_its_cluster(gpuplan, tmp_path, dated):
    log = write_trace(
        tmp_path / "one.parquet", [0.0, DAY], [2 * DAY, DAY], num_gpus=[2.0, 1.0],
        queue_s=[0.0, 0.0], gpu_type=["A100", "A100"],
    )  # fmt: skip
    words = ("size", log, "--contracts", dated, "--cluster", "3", "--gpus", "3")
    code, out, err = gpuplan(*words)
    # 1 GPU owned for 48 h; the second 24 h at $2 and 24 h at $3, the third 24 h at $3.
    billed = (48 * 0.5 + 24 * 2 + 48 * 3) * MONTH_H / 48
    text = " ".join(out.split())
    assert code == 0, err
    bill = show_dollars(billed)
    today = f"Today: 3 GPUs, 2.5 held on average (peak 3), P95 wait 0 s, {bill} a month as billed."
    assert today in text
    assert "a cluster pays for all GPUs owned and committed to" in " ".join(err.split())
    words = ("size", log, "--price", "2", "--cluster", "3", "--gpus", "3,4")
    code, out, err = gpuplan(*words)
    text = " ".join(out.split())
    assert (
        code == 0
        and "Today: 3 GPUs around the clock for $4,380 a month" in text
        and "as billed" not in text
    )


@pytest.mark.compiled
def test_todays_cluster_has_no_cost_where_prices_change_within_the_log(gpuplan, tmp_path, dated):
    site = write_list(tmp_path / "s.json", [cluster_queue("q", flavors={"a100": 4})])
    log = write_trace(
        tmp_path / "t.parquet", [0, DAY], [2 * DAY, DAY], [2.0, 1.0], group=["x", "x"],
        queue_s=[0.0, 0.0], gpu_type=["A100", "A100"],
    )  # fmt: skip
    words = ("compare", log, "--policy", "kueue", "--site", site)
    found = command_results(gpuplan, *words, "--contracts", dated)
    assert "today_cluster" not in found
    assert found["policies"][0]["usd_per_month"] == pytest.approx((0.5 + 3 * 3) * MONTH_H)
    found = command_results(gpuplan, *words, "--owned", "A100=1@0.5", "--price", "3")
    assert found["today_cluster"]["usd_per_month"] == pytest.approx((0.5 + 3 * 3) * MONTH_H)


@pytest.mark.parametrize(
    ("dates", "usd"),
    [
        ("from = 2024-02-01\nuntil = 2024-03-02\n", 3 * 3),  # it ends within the log
        ("from = 2024-03-02\nuntil = 2025-01-01\n", 2 * 1 + 3),  # it begins within the log
        ("from = 2024-05-01\n", 3 * 3),  # it begins after the log
    ],
)
def test_a_cluster_pays_what_is_committed_to_at_the_end_of_the_log(gpuplan, tmp_path, dates, usd):
    log = write_trace(
        tmp_path / "one.parquet", [0.0, DAY], [2 * DAY, DAY], num_gpus=[2.0, 1.0],
        queue_s=[0.0, 0.0], gpu_type=["A100-80GB", "A100-80GB"],
    )  # fmt: skip
    book = tmp_path / "book.toml"
    book.write_text(
        f'[[commitment]]\ngpu_type = "A100-80GB"\ngpus = 2\nusd_per_gpu_h = 1.0\n{dates}'
        '[[price]]\ngpu_type = "A100-80GB"\nkind = "on_demand"\nusd_per_gpu_h = 3.0\n'
    )
    for words in (("--gpus", "3"), ("--cluster", "A100=3"), ("--cluster", "A100-80GB=3x1")):
        words = ("--policy", "fifo", "--contracts", book, *words)
        assert usd_of(gpuplan, "compare", log, *words) == pytest.approx(usd * MONTH_H)
    (size,) = command_results(gpuplan, "size", log, "--contracts", book, "--gpus", "3")["points"]
    assert size["usd_per_month"] == pytest.approx(usd * MONTH_H)
