"""One price table, one price of a cluster: the same dollars in every study."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from support_traces import START, write_trace

from gpuplan.analysis.price_formats.schema import PRICE

HOURS = 730.5
OFFERS = (
    ("dear", "A100", "on_demand", 1.35),
    ("cheap", "A100", "on_demand", 0.90),
    ("cheap", "A100", "marketplace", 0.80),
    ("dear", "A100", "spot", 0.60),
    ("dear", "A100", "serverless", 2.10),
    ("dear", "H100", "on_demand", 3.00),
    ("dear", "H100", "serverless", 4.50),
    ("cheap", "L4", "marketplace", 0.25),
)
MEDIAN = (1.35 + 0.90) / 2
SPEED = ("--gpu-speed", "A100=1,H100=1")


def table_of(path, at):
    """Write a price table of `OFFERS`, each at one time."""
    provider, gpu_type, kind, usd = zip(*OFFERS, strict=True)
    rows = {"provider": provider, "gpu_type": gpu_type, "kind": kind, PRICE: usd}
    pl.DataFrame({"timestamp": [at] * len(OFFERS), **rows}).write_parquet(path)
    return path


def log_of(path, gpu_types):
    """Write two weeks of jobs, of types in turn, that never hold 16 GPUs."""
    rng = np.random.default_rng(0)
    submit_s = np.sort(rng.uniform(0, 14 * 86_400, 300))
    types = [gpu_types[i % len(gpu_types)] for i in range(300)]
    return write_trace(
        path, submit_s, rng.uniform(300, 3_000, 300), [2.0] * 300, gpu_type=types,
        wait_s=[0.0] * 300, job_id=[f"j{i}" for i in range(300)],
    )  # fmt: skip


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path / "prices.parquet", START - timedelta(days=1))


@pytest.fixture
def results(gpuplan):
    def run(*words):
        code, out, err = gpuplan(*words, "--output-format", "json")
        assert code == 0, err
        return json.loads(out)["results"]

    return run


def test_a_cluster_costs_the_same_in_every_study(results, tmp_path, table):
    """The median on demand, as `size` and `bill` pay; no study rents it from a market unasked."""
    path = log_of(tmp_path / "log.parquet", ["A100"])
    for prices in (("--prices", table), ("--price", MEDIAN)):
        usd = [
            results("size", path, "--gpus", 16, *prices)["points"][0]["usd_per_month"],
            results("simulate", path, "--policy", "easy", "--cluster", 16, *prices)[
                "usd_per_month"
            ],
            *(
                row["usd_per_month"]
                for row in results(
                    *("compare", path, "--policy", "fifo", "--policy", "easy"),
                    *("--cluster", "A100=16", *prices),
                )["policies"]
            ),
        ]
        assert usd == pytest.approx([16 * MEDIAN * HOURS] * 4, rel=1e-3)
    against = results(
        *("sweep", path, "--threshold", 600, "--against", "fifo:cluster=16"),
        *("--prices", table, "--resamples", 0),
    )["against"]
    assert against["usd_per_month"] == pytest.approx(16 * MEDIAN * HOURS, rel=1e-3)


def test_a_row_rents_its_cluster_from_a_market_where_it_says_so(results, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    own, market = results(
        *("compare", path, "--policy", "fifo", "--policy", "easy:provider=cheap"),
        *("--cluster", "A100=16", "--prices", table),
    )["policies"]
    assert own["usd_per_month"] == pytest.approx(16 * MEDIAN * HOURS, rel=1e-3)
    assert market["usd_per_month"] == pytest.approx(16 * 0.80 * HOURS, rel=1e-3)


@pytest.mark.parametrize(
    ("provider", "usd"), [("dear", 1.35), ("cheap", 0.90), ("dear:spot", 0.60)]
)
def test_every_today_is_that_of_the_provider_that_is_named(results, tmp_path, table, provider, usd):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    prices = ("--prices", table, "--provider", provider)
    bills = [
        results(*words, *prices)["today"]["usd_per_month"]
        for words in (
            ("characterize", path),
            ("size", path, "--gpus", 16),
            ("simulate", path, "--policy", "serverful-only"),
            ("compare", path, "--policy", "fifo", "--policy", "allpass", "--cluster", 16),
            ("sweep", path, "--threshold", 600, "--resamples", 0),
            ("pareto", path),
            ("plan", path, "--commit", 0.45),
        )
    ]
    bills.append(results("bill", path, *prices)["usd_per_month"])
    gpu_h = results("characterize", path)["gpu_time"]["gpu_hours"]
    assert bills == pytest.approx([bills[0]] * len(bills), rel=1e-5)
    assert bills[0] == pytest.approx(gpu_h * usd * HOURS / (14 * 24), rel=0.02)


@pytest.mark.parametrize(
    ("provider", "usd"), [("dear", 1.35), ("cheap", 0.90), ("dear:spot", 0.60)]
)
def test_all_studies_pay_the_provider_that_is_named(results, tmp_path, table, provider, usd):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    prices = ("--prices", table, "--provider", provider)
    size = results("size", path, "--gpus", 16, *prices)["points"][0]["usd_per_month"]
    rows = results(
        *("compare", path, "--policy", "fifo", "--policy", "easy", "--cluster", "A100=16", *prices)
    )["policies"]
    swept = results(
        *("sweep", path, "--threshold", 600, "--against", "fifo:cluster=16", "--resamples", 0),
        *prices,
    )
    found = [size, *(row["usd_per_month"] for row in rows), swept["against"]["usd_per_month"]]
    assert found == pytest.approx([16 * usd * HOURS] * 4, rel=1e-3)
    assert results("bill", path, *prices)["usd"] == results("bill", path, "--price", usd)["usd"]


def test_a_policy_that_rents_has_the_cloud_of_the_provider_that_is_named(gpuplan, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    for words, usd in (
        (("--provider", "dear"), 1.35),
        (("--provider", "dear:spot"), 0.60),
        (("--provider", "dear", "--set", "conventional_provider=cheap"), 0.90),
        (("--provider", "dear", "--set", "conventional_usd_per_gpu_h=3"), 3.0),
        (("--provider", "dear", "--set", "conventional_usd_per_gpu_h=0"), 0.0),
    ):
        line = ("simulate", path, "--policy", "serverful-only", "--prices", table, *words)
        code, out, err = gpuplan(*line, "--output-format", "json")
        assert code == 0, err
        settings = json.loads(out)["parameters"]["settings"]
        assert settings["conventional_usd_per_gpu_h"] == pytest.approx(usd)


def test_a_provider_without_a_price_is_refused(gpuplan, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    words = ("simulate", path, "--policy", "fifo", "--cluster", 16)
    for more, said in (
        (("--provider", "dear"), "--provider: needs --prices FILE or builtin"),
        (("--provider", "absent", "--prices", table), "has none of that name next: one of cheap"),
        (("--provider", "cheap:spot", "--prices", table), "no spot price of A100 at cheap"),
        (("--provider", "dear:often", "--prices", table), "a kind is one of"),
    ):
        code, out, err = gpuplan(*words, *more)
        assert (code, out) == (2, "") and said in " ".join(err.split()), err


def test_a_provider_that_no_study_would_pay_is_refused_by_all(gpuplan, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100", "H100"])
    for words in (
        ("characterize", path),
        ("bill", path),
        ("size", path, "--gpus", 16),
        ("simulate", path, "--policy", "las", "--cluster", "A100=8,H100=8", *SPEED),
        ("plan", path, "--commit", 0.45),
        ("pareto", path, "--where", "gpu_type = 'H100'"),
    ):
        for provider, said in (("absent", "none of that name"), ("cheap", "H100")):
            code, _, err = gpuplan(*words, "--prices", table, "--provider", provider)
            text = " ".join(err.split())
            assert code == 2 and said in text and f"{provider}" in text, (words, err)


def test_a_provider_is_found_by_its_name_in_any_case_or_how_it_begins(results, tmp_path, table):
    pl.read_parquet(table).with_columns(
        provider=pl.col("provider").replace({"dear": "Dear Cloud"})
    ).write_parquet(table)
    path = log_of(tmp_path / "log.parquet", ["A100"])
    expected = results("bill", path, "--price", 1.35)["usd"]
    for name in ("Dear Cloud", "dear cloud", "de", "DE:on_demand"):
        found = results("bill", path, "--prices", table, "--provider", name)["usd"]
        assert found == pytest.approx(expected)


def test_the_only_kind_of_a_provider_is_its_price(results, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    offers = pl.read_parquet(table)
    pl.concat([offers.filter(provider="dear"), offers.filter(kind="marketplace")]).write_parquet(
        table
    )
    usd = results("bill", path, "--prices", table, "--provider", "cheap")["usd"]
    assert usd == results("bill", path, "--price", 0.80)["usd"]


def test_a_provider_beside_the_price_of_every_type_has_no_effect_and_that_is_said(
    gpuplan, tmp_path, table
):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    for words in (("bill", path), ("compare", path, "--policy", "fifo", "--cluster", 16)):
        prices = ("--prices", table, "--provider", "dear")
        code, _, err = gpuplan(*words, *prices, "--price", 3)
        assert code == 0 and "--provider dear has no effect" in err
        assert "has no effect" not in gpuplan(*words, *prices)[2]


def test_a_cluster_without_a_market_pays_the_book(results, tmp_path, table):
    """`marketplace_offers=0` is for the policies that rent, and moves no cluster."""
    path = log_of(tmp_path / "log.parquet", ["A100"])
    rows = results(
        *("compare", path, "--policy", "fifo", "--policy", "serverful-only"),
        *("--cluster", "16", "--prices", table, "--set", "marketplace_offers=0"),
    )["policies"]
    assert rows[0]["usd_per_month"] == pytest.approx(16 * MEDIAN * HOURS, rel=1e-3)


def test_commitments_of_today_are_in_the_bill_and_the_cluster_of_a_size(results, tmp_path):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    commit = ("--commit", "A100=8@1.0")
    bill = results("bill", path, *commit, "--price", 1.35)["usd_per_month"]
    for prices in (("--price", "1.35"), ("--on-demand", "A100=1.35")):
        found = results("size", path, "--gpus", 16, *commit, *prices)
        assert found["today"]["usd_per_month"] == pytest.approx(bill)
        assert found["points"][0]["usd_per_month"] == pytest.approx(8 * (1 + 1.35) * HOURS)
        assert found["commitment"]["today_gpus"] == 8
    words = (*commit, "--owned", "A100=2")
    found = results("size", path, "--gpus", 16, *words, "--on-demand", "A100=1.35")
    bill = results("bill", path, *words, "--price", 1.35)["usd_per_month"]
    assert found["today"]["usd_per_month"] == pytest.approx(bill, rel=1e-5)
    assert found["points"][0]["usd_per_month"] == pytest.approx((8 + 6 * 1.35) * HOURS)
    book = tmp_path / "book.toml"
    book.write_text("[[commitment]]\ngpu_type = 'A100'\ngpus = 4\nusd_per_gpu_h = 0.9\n")
    for gpus in (8, 0):
        words = (path, "--price", 1.35, "--contracts", book, "--commit", f"A100={gpus}@1.0")
        found = results("size", *words, "--gpus", 16)["today"]["usd_per_month"]
        same = ("--price", 1.35) if gpus == 0 else ("--price", 1.35, *commit)
        assert found == pytest.approx(results("bill", path, *same)["usd_per_month"], rel=1e-5)


def test_a_scenario_names_its_provider_once(gpuplan, tmp_path, table, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path / "log.parquet", ["A100"])
    (tmp_path / "scenario.toml").write_text(
        f"""
[workload]
trace = "log.parquet"
[prices]
file = "{table.name}"
provider = "dear"
[study.size]
gpus = 16
[study.compare]
policy = ["fifo", "easy"]
cluster = "16"
[output]
dir = "out"
formats = ["json"]
"""
    )
    code, _, err = gpuplan("run", tmp_path / "scenario.toml")
    assert code == 0, err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    size, replays = (study["results"] for study in report["studies"])
    found = [size["points"][0], *replays["policies"]]
    usd = [row["usd_per_month"] for row in found]
    assert usd == pytest.approx([16 * 1.35 * HOURS] * 3, rel=1e-3)


def test_a_type_that_a_table_has_no_price_on_demand_of_is_rented_from_a_market(
    results, tmp_path, table
):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    offers = pl.read_parquet(table).filter(kind="marketplace", gpu_type="A100")
    offers.write_parquet(table)
    rented = results("simulate", path, "--policy", "fifo", "--cluster", 16, "--prices", table)
    assert rented["usd_per_month"] == pytest.approx(16 * 0.80 * HOURS, rel=1e-3)


def test_no_two_rows_are_of_different_gpus(gpuplan, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    for rows in (("fifo", "easy:gpu=H100"), ("fifo", "serverless-only:gpu=H100")):
        policies = [word for row in rows for word in ("--policy", row)]
        code, out, err = gpuplan("compare", path, *policies, "--cluster", 16, "--prices", table)
        assert (code, out) == (2, "") and "A100 (fifo) and H100" in " ".join(err.split())


def test_a_type_without_a_price_is_named_where_there_are_several(gpuplan, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100", "V100"])
    for cluster in ("16", "A100=8,V100=8"):
        words = ("simulate", path, "--policy", "las", "--cluster", cluster, "--prices", table)
        speed = ("--gpu-speed", "A100=1,V100=0.5") if "=" in cluster else ()
        code, out, err = gpuplan(*words, *speed)
        assert (code, out) == (2, "") and "V100" in err.partition("next:")[0]
        assert "no price of V100, only of" in " ".join(err.split())


def test_of_prices_that_change_those_at_the_end_are_paid_and_said(gpuplan, results, tmp_path):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    table = tmp_path / "prices.parquet"
    first = pl.read_parquet(table_of(table, START - timedelta(days=1)))
    later = first.with_columns(pl.col("timestamp") + timedelta(days=8), pl.col(PRICE) * 2)
    pl.concat([first, later]).write_parquet(table)
    words = ("--policy", "fifo", "--cluster", 16, "--prices", table)
    found = results("simulate", path, *words)
    size = results("size", path, "--gpus", 16, "--prices", table)["points"][0]
    assert found["usd_per_month"] == pytest.approx(size["usd_per_month"], rel=1e-3)
    assert found["usd_per_month"] == pytest.approx(16 * 2 * MEDIAN * HOURS, rel=1e-3)
    against = ("sweep", path, "--threshold", 600, "--against", "fifo:cluster=16", "--prices", table)
    for line in (("simulate", path, *words), (*against, "--resamples", 0)):
        said = " ".join(gpuplan(*line, "--full")[2].split())
        assert "the pay-per-use prices at the end of the log, per GPU-hour: A100 $2.25" in said


def test_each_type_of_a_cluster_has_its_price(results, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100", "H100"])
    words = ("simulate", path, "--policy", "las", "--cluster", "A100=8,H100=8", *SPEED)
    usd = {
        name: results(*words, *prices)["usd_per_month"]
        for name, prices in (
            ("table", ("--prices", table)),
            ("typed", ("--price", f"A100={MEDIAN},H100=3")),
        )
    }
    assert usd["table"] == usd["typed"]
    assert usd["table"] == pytest.approx(8 * (MEDIAN + 3.0) * HOURS, rel=0.05)


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "--policy", "fifo", "--cluster", "16"),
        ("compare", "--policy", "fifo", "--policy", "easy", "--cluster", "16"),
        ("sweep", "--threshold", "600", "--resamples", "0"),
    ],
)
def test_replays_say_that_prices_are_of_another_time(gpuplan, tmp_path, words):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    for at, is_told in ((datetime(2020, 1, 1, tzinfo=UTC), True), (START, False)):
        table = table_of(tmp_path / "prices.parquet", at)
        code, _, err = gpuplan(words[0], path, *words[1:], "--prices", table)
        assert code == 0, err
        text = " ".join(err.split())
        assert ("price samples of A100 in" in text) == is_told


def test_policies_of_a_market_beside_clusters_are_named(gpuplan, tmp_path, table):
    path = log_of(tmp_path / "log.parquet", ["A100"])
    words = ("compare", path, "--policy", "allpass", "--policy", "fifo", "--cluster", "A100=16")
    said = " ".join(gpuplan(*words, "--prices", table)[2].split())
    assert (
        "today and the other policies are charged $1.125 per GPU-hour on demand, and allpass $0.90"
    ) in said


def scenario_of(tmp_path, prices, study):
    (tmp_path / "scenario.toml").write_text(
        f'[workload]\ntrace = "log.parquet"\n[prices]\n{prices}\n{study}\n[output]\n'
        'dir = "out"\nformats = ["json"]\n'
    )
    return tmp_path / "scenario.toml"


def test_a_provider_of_a_scenario_without_a_table_is_a_warning(
    gpuplan, tmp_path, monkeypatch, table
):
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path / "log.parquet", ["A100"])
    study = '[study.compare]\npolicy = ["fifo"]\ncluster = "16"'
    code, _, err = gpuplan("run", scenario_of(tmp_path, 'provider = "dear"\nprice = 2', study))
    assert code == 0 and "[prices] provider has no effect without file" in " ".join(err.split())
    several = f'file = "{table.name}"\nprovider = ["dear", "cheap"]'
    code, _, err = gpuplan("run", scenario_of(tmp_path, several, study))
    assert code == 2 and "provider" in err


def test_a_study_of_a_scenario_may_leave_out_the_table_with_its_provider(
    gpuplan, tmp_path, monkeypatch, table
):
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path / "log.parquet", ["A100"])
    prices = f'file = "{table.name}"\nprovider = "dear"\nprice = 2'
    study = '[study.compare]\npolicy = ["fifo"]\ncluster = "16"\nprices = false'
    code, _, err = gpuplan("run", scenario_of(tmp_path, prices, study))
    assert code == 0, err
    (replays,) = json.loads((tmp_path / "out" / "report.json").read_text())["studies"]
    assert replays["results"]["policies"][0]["usd_per_month"] == pytest.approx(16 * 2 * HOURS)
