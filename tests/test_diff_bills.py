"""``gpuplan diff`` of two bills: its parts, what is new and gone, and gates on them."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from support_diff import compared

from gpuplan.cli.diff.gates import check_changes

BOOK = """
[[owned]]
gpu_type = "A100"
gpus = 2
usd_per_gpu_h = 0.3

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 2.0

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 2.5
from = 2026-04-01

[[price]]
gpu_type = "T4"
kind = "on_demand"
usd_per_gpu_h = 0.5
"""
PARTS = ("price_usd", "calendar_usd", "volume_usd", "mix_usd", "idle_usd")


@pytest.fixture
def log(tmp_path):
    """Jobs of March and April 2026: group new begins in April, old ends in March."""
    rows = []
    for day in range(61):
        at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day, hours=day % 24)
        late = day >= 31
        rows += [
            {"submit_time": at, "group": "a", "gpu_type": "A100", "num_gpus": 4.0 + late,
             "duration_s": 3600.0 * (3 + day % 4)},
            {"submit_time": at, "group": "b", "gpu_type": "T4" if late else "A100",
             "num_gpus": 1.0, "duration_s": 3600.0 * 2},
            {"submit_time": at, "group": "new" if late else "old", "gpu_type": "T4",
             "num_gpus": 2.0, "duration_s": 3600.0},
        ]  # fmt: skip
    rows.append(  # the tail: it runs on for two days of April
        {"submit_time": datetime(2026, 3, 31, tzinfo=UTC), "group": "a", "gpu_type": "A100",
         "num_gpus": 1.0, "duration_s": 3 * 86400.0}
    )  # fmt: skip
    path = tmp_path / "log.parquet"
    frame = pl.DataFrame(rows).with_columns(queue_s=pl.lit(0.0))
    frame.sort("submit_time").write_parquet(path)
    (tmp_path / "book.toml").write_text(BOOK)
    return path


def bill(gpuplan, log, name, *words):
    """Write a bill as JSON and return its path."""
    path = log.with_name(f"{name}.json")
    book = ("--contracts", log.with_name("book.toml"))
    code, _, err = gpuplan("bill", log, *book, *words, "-q", "-o", path)
    assert code == 0, err
    return path


def diff(gpuplan, *words, code=0):
    """Return the results of a comparison and what it says."""
    got, out, err = gpuplan("diff", *words, "--output-format", "json")
    assert got == code, err
    document = json.loads(out)
    return document["results"], document["warnings"], err


def months(gpuplan, log, *words):
    return [bill(gpuplan, log, name, "--months", name, *words) for name in ("2026-03", "2026-04")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda results: results.update(begin="x"), "Invalid isoformat string: 'x'"),
        (
            lambda results: results.update(begin=results["begin"].lower()),
            "Invalid isoformat string",
        ),
        (lambda results: results.pop("by"), "missing required field `by`"),
        (lambda results: results.update(begin=results["end"]), "an end that is no later"),
        (lambda results: results.pop("months"), "missing required field `months`"),
        (lambda results: results.update(months=[]), "at `$.months`"),
        (lambda results: results["months"].__setitem__(0, [1]), "at `$.months[0]`"),
        (lambda results: results["months"][0].update(hours=0), "at `$.months[0].hours`"),
        (lambda results: results.update(uses=[1]), "at `$.uses[0]`"),
        (lambda results: results["uses"][0].update(usd=1e300), "a use of over 1e+15 dollars"),
        (lambda results: results.update(window_s=0), "at `$.window_s`"),
        (lambda results: results.update(window_s=1e-310), "at `$.window_s`"),
    ],
)
def test_a_bill_that_is_not_as_it_was_written_is_refused(gpuplan, log, change, said):
    whole = bill(gpuplan, log, "whole")
    document = json.loads(whole.read_text())
    change(document["results"])
    broken = log.with_name("broken.json")
    broken.write_text(json.dumps(document))
    for pair in ((whole, broken), (broken, whole)):
        code, _, err = gpuplan("diff", *pair)
        assert code == 3 and "broken.json: it is not as gpuplan bill writes it: " in err
        assert said in err


@pytest.mark.parametrize(
    "words", [(), ("--idle", "spread"), ("--by", "type"), ("--by", "group,type")]
)
def test_two_bills_change_as_two_months_of_one_bill_do(gpuplan, log, words):
    found, warnings, _ = diff(gpuplan, *months(gpuplan, log, *words))
    both = bill(gpuplan, log, "both", "--months", "2026-03,2026-04", *words)
    wanted = json.loads(both.read_text())["results"]["change"]
    (change,) = [one["change"] for one in found["bills"]]
    assert not warnings
    assert (change["before"], change["after"]) == ("2026-03", "2026-04")
    for key, value in wanted.items():
        if key.endswith("usd"):
            assert change[key] == pytest.approx(value, abs=1e-6)
    for rows in ("groups", "gpu_types"):
        assert [row["name"] for row in change[rows]] == [row["name"] for row in wanted[rows]]
        for row, true in zip(change[rows], wanted[rows], strict=True):
            for key in true.keys() - {"name"}:
                assert row[key] == pytest.approx(true[key], abs=1e-6)
    assert sum(change[part] for part in PARTS) == pytest.approx(change["usd"], abs=1e-6)
    assert change["after_usd"] - change["before_usd"] == pytest.approx(change["usd"], abs=0.011)


def test_idle_gpus_of_a_longer_month_are_told_by_the_day_too(gpuplan, log):
    # March has 31 days, April 30; both pay for 2 owned A100, which a group uses more in April.
    march, april = (json.loads(path.read_text())["results"] for path in months(gpuplan, log))
    share = (april["idle_usd"] / 30) / (march["idle_usd"] / 31) - 1
    found, _, _ = diff(gpuplan, *(log.with_name(f"2026-0{month}.json") for month in (3, 4)))
    change = found["bills"][0]["change"]
    assert change["idle_per_day_change_share"] == pytest.approx(share, abs=1e-4)
    _, out, _ = gpuplan("diff", *(log.with_name(f"2026-0{month}.json") for month in (3, 4)))
    assert f"({share:+.1%} a day)" in out


def test_new_and_gone_labels_have_their_dollars(gpuplan, log):
    paths = months(gpuplan, log)
    found, _, _ = diff(gpuplan, *paths)
    change = found["bills"][0]["change"]
    status = {row["name"]: (row["new"], row["gone"]) for row in change["groups"]}
    assert status == {
        "a": (False, False), "b": (False, False), "new": (True, False), "old": (False, True),
    }  # fmt: skip
    assert change["new_usd"] == pytest.approx(30 * 2 * 0.5)  # 30 hours on 2 T4
    assert change["gone_usd"] == pytest.approx(31 * 2 * 0.5)
    changes = {row["field"]: row for row in found["changes"]}
    new = changes["groups[new].usd"]
    assert (new["old"], new["new"], new["change"]) == (0, 30, 30) and new["change_share"] is None
    assert changes["groups[old].usd"]["change_share"] == -1
    _, out, _ = gpuplan("diff", *paths)
    text = " ".join(out.split())
    assert "New: new ($30.00). Gone: old ($31.00)." in text
    assert "2026-04 cost $" in text and "more than 2026-03" in text


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("bill.groups[*].usd > +5%", "failed"),  # the new label
        ("groups[new].usd > +$29", "failed"),
        ("groups[new].usd > +$31", "passed"),
        ("groups[old].usd > +5%", "passed"),  # it is gone, and its $0 are known
        ("groups[old].usd < -99%", "failed"),
        ("new_usd > $29", "failed"),
        ("new_usd > +$31", "passed"),
        ("change.gone_usd > $30", "failed"),
        ("price_usd > +$1", "failed"),
        ("price_usd > +90%", "passed"),  # of the old bill
        ("change.groups[a].price_usd > +$1", "failed"),
        ("groups[nobody].usd > +5%", "unchecked"),
        ("months.usd > +5%", "unchecked"),
        ("new_usd > 29", "error"),
        ("change.usd < -200%", "passed"),
    ],
)
def test_gates_see_new_and_gone_labels(gpuplan, log, condition, state):
    code = {"failed": 1, "passed": 0, "unchecked": 1, "error": 2}[state]
    got, out, err = gpuplan(
        "diff", *months(gpuplan, log), "--fail-if", condition, "--output-format", "json"
    )
    assert got == code, err
    if out:
        assert [gate["state"] for gate in json.loads(out)["results"]["gates"]] == [state]


def test_logs_of_a_month_each_are_compared_by_their_months(gpuplan, log):
    march = bill(gpuplan, log, "march", "--until", "2026-04-01")
    april = bill(gpuplan, log, "april", "--since", "2026-04-01")
    tail = json.loads(march.read_text())["results"]["months"]
    assert [month["name"] for month in tail] == ["2026-03", "2026-04"]  # a job runs on
    found, warnings, _ = diff(gpuplan, march, april)
    change = found["bills"][0]["change"]
    assert (change["before"], change["after"]) == ("2026-03", "2026-04")
    assert any("whole months" in text for text in warnings)
    whole = diff(gpuplan, *months(gpuplan, log))[0]["bills"][0]["change"]
    assert change["calendar_usd"] == pytest.approx(whole["calendar_usd"])  # 31 and 30 days
    assert change["before_usd"] == whole["before_usd"]
    # What the tail holds in April is in neither: 2 days of the one GPU, of which the pool has 2.
    assert not any("months[2026-04]" in row["field"] for row in found["changes"])


def test_bills_of_one_log_are_of_one_time_whenever_the_last_job_ends(gpuplan, log):
    short = bill(gpuplan, log, "short", "--where", "duration_s < 86400")
    long = bill(gpuplan, log, "long", "--scale-duration", "1.5", "--where", "duration_s < 86400")
    found, warnings, _ = diff(gpuplan, short, long)
    change = found["bills"][0]["change"]
    assert (change["before"], change["after"]) == ("the old bill", "the new bill")
    assert change["calendar_usd"] == 0 and not warnings
    assert change["volume_usd"] > 0


def test_bills_of_logs_of_other_lengths_are_compared_by_the_month(gpuplan, tmp_path):
    # Two hours on a T4 in 10 h are $1, or $73.05 a month; in 5.5 h $1 is $132.82 a month.
    at = [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (0, 9)]
    jobs = {"submit_time": at, "group": ["a", "b"], "gpu_type": "T4", "num_gpus": 1.0}
    log = tmp_path / "log.parquet"
    pl.DataFrame(jobs | {"duration_s": 3600.0, "queue_s": 0.0}).write_parquet(log)
    on_demand = BOOK[BOOK.rindex("[[price]]") :]
    (tmp_path / "book.toml").write_text(on_demand)
    long = bill(gpuplan, log, "long")
    short = bill(gpuplan, log, "short", "--scale-interarrival", "0.5")
    found, warnings, _ = diff(gpuplan, long, short, "--fail-if", "volume_usd > +$59", code=1)
    (one,) = found["bills"]
    change = one["change"]
    assert one["is_per_month"]
    assert (change["before_usd"], change["after_usd"]) == (73.05, 132.82)
    assert (change["calendar_usd"], change["price_usd"], change["mix_usd"]) == (0, 0, 0)
    assert change["volume_usd"] == pytest.approx(730.5 / 5.5 - 73.05)
    assert warnings[0] == (
        "the old log covers 10 h and costs $1.00, the new one 5.5 h and $1.00: the bills are "
        "compared by the month"
    )
    _, out, _ = gpuplan("diff", long, short)
    assert " ".join(out.split()).startswith(
        "The new bill costs $132.82 a month, $59.77 more than the old bill (+81.8%): GPU-hours a "
        "day +$59.77. Group a changed most (+$29.88)."
    )
    assert "in dollars a month" in out


def test_idle_gpus_of_bills_of_a_month_are_those_of_its_bill(gpuplan, log):
    paths = [
        bill(gpuplan, log, f"x{factor}", "--scale-interarrival", factor, "--owned", "T4=3@0.2")
        for factor in ("1", "0.5")
    ]
    change = diff(gpuplan, *paths)[0]["bills"][0]["change"]
    old, new = (json.loads(path.read_text())["results"] for path in paths)
    idle_usd = new["idle_usd_per_month"] - old["idle_usd_per_month"]
    assert change["idle_usd"] == pytest.approx(idle_usd, abs=0.011)
    assert change["usd"] == pytest.approx(new["usd_per_month"] - old["usd_per_month"], abs=0.011)


def test_bills_of_the_same_dollars_name_no_change(gpuplan, log):
    paths = [bill(gpuplan, log, "g"), bill(gpuplan, log, "h", "--seed", "1")]
    document = json.loads(paths[1].read_text())
    document["results"]["mean_gpus"] += 1  # something else changed
    paths[1].write_text(json.dumps(document))
    _, out, _ = gpuplan("diff", *paths)
    text = " ".join(out.split())
    assert "as much as the old bill. 1 of" in text and "changed most" not in text


def test_the_headline_and_the_table_call_the_parts_of_a_change_alike(gpuplan, log):
    _, out, _ = gpuplan("diff", *months(gpuplan, log))
    headline, header = " ".join(out.split("What changed")[0].split()), out.split("What changed")[1]
    for part in ("price", "days billed", "GPU-hours a day", "idle GPUs"):
        assert f"{part} +$" in headline or f"{part} -$" in headline
        assert part in header


def test_bills_without_a_period_say_that_they_run_to_the_last_job(gpuplan, log):
    early = bill(gpuplan, log, "early", "--until", "2026-03-10")
    late = bill(gpuplan, log, "late", "--since", "2026-03-20", "--until", "2026-03-25")
    found, warnings, _ = diff(gpuplan, early, late)
    assert found["bills"][0]["change"]["calendar_usd"] < 0
    assert any("run to the end of their last jobs" in text for text in warnings)


def test_bills_by_other_columns_have_no_parts(gpuplan, log):
    by_group, by_type = bill(gpuplan, log, "g"), bill(gpuplan, log, "t", "--by", "type")
    found, _, _ = diff(gpuplan, by_group, by_type)
    assert found["bills"] == []
    assert {row["side"] for row in found["only"]} == {"old", "new"}
    # A row that one of them lacks is not $0 there, so a gate on it cannot be checked.
    got, _, _ = gpuplan("diff", by_group, by_type, "--fail-if", "groups.usd > +5%", "-q")
    assert got == 1


def test_a_bill_without_its_uses_is_compared_number_by_number(gpuplan, log):
    paths = months(gpuplan, log)
    for path in paths:  # as an earlier version wrote it
        document = json.loads(path.read_text())
        del document["results"]["uses"]
        path.write_text(json.dumps(document))
    found, _, _ = diff(gpuplan, *paths)
    assert found["bills"] == [] and found["changed"] > 0


def test_a_manifold_rise_is_told_in_times_and_a_share_of_nothing_as_new(gpuplan, tmp_path):
    old = {"usd": 0.5, "cost_usd": 0.0}
    new = {"usd": 380.0, "cost_usd": 5.0}
    gates = check_changes(compared(old, new), ["usd > +5%", "cost_usd > +5%"])
    assert [gate.detail for gate in gates] == [
        "usd went from $0.50 to $380.00, 760 times",
        "cost_usd went from $0.00 to $5.00, from 0",
    ]


def test_reports_compare_the_bills_in_them(gpuplan, log, tmp_path):
    paths = []
    for name in ("2026-03", "2026-04"):
        folder = tmp_path / name
        book = ("--set", f"bill.contracts={log.with_name('book.toml')}")
        words = ("--study", "bill", *book, "--set", f"bill.months={name}", "--formats", "json")
        code, _, err = gpuplan("report", log, *words, "-q", "-o", folder)
        assert code == 0, err
        paths.append(folder / "report.json")
    found, _, _ = diff(gpuplan, *paths, "--fail-if", "bill.new_usd > $29", code=1)
    assert [one["study"] for one in found["bills"]] == ["bill"]
    assert found["gates"][0]["state"] == "failed"


def test_the_change_between_two_bills_is_the_truth(gpuplan, shared, tmp_path):
    company = shared / "data" / "company"
    if not company.is_dir():
        pytest.skip("the company of known truth (../shared/data/company) is not here")
    pair, true = next(iter(json.loads((company / "truth.json").read_text())["changes"].items()))
    paths = []
    for month in pair.split(","):
        paths.append(tmp_path / f"{month}.json")
        words = ("--contracts", company / "contracts.toml", "--months", month, "-q")
        assert gpuplan("bill", company / "jobs.csv.gz", *words, "-o", paths[-1])[0] == 0
    change = diff(gpuplan, *paths)[0]["bills"][0]["change"]
    assert change["usd"] == pytest.approx(float(true["total_change"]), abs=1e-6)
    for part in ("price", "calendar", "volume", "mix"):
        assert change[f"{part}_usd"] == pytest.approx(float(true["use"][part]), abs=1e-6)
    for rows, table in (("groups", "by_label"), ("gpu_types", "by_type")):
        for row in change[rows]:
            of_row = true[table][row["name"]]
            status = "new" if row["new"] else "gone" if row["gone"] else "kept"
            assert status == of_row["status"]
            for part in ("price", "calendar", "volume", "mix"):
                assert row[f"{part}_usd"] == pytest.approx(float(of_row[part]), abs=1e-6)


def test_bills_that_are_split_differently_lead_with_their_dollars(gpuplan, log):
    paths = [bill(gpuplan, log, "g", "--by", "group"), bill(gpuplan, log, "t", "--by", "type")]
    _, out, _ = gpuplan("diff", *paths)
    text = " ".join(out.split())
    assert text.startswith("Both bills are $")
    assert "they are split differently, by group and by type: no rows are compared" in text
    march, april = bill(gpuplan, log, "m", "--months", "2026-03"), paths[1]
    _, out, _ = gpuplan("diff", march, april)
    assert " ".join(out.split()).startswith("The whole bill went from $")
