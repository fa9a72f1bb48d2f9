"""A plan says nothing of a log whose waits its model does not explain, and shows one today."""

import json

import pytest

DAY, HOUR = 86400, 3600
BOOK = """
[[owned]]
gpu_type = "A100"
gpus = 2
usd_per_gpu_h = 0.50

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 3.00

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 2.00
from = 2026-01-21
"""


@pytest.fixture
def log(tmp_path):
    """Return what writes a log: a job of 4 GPUs for 6 hours each day of 40, after some wait."""

    def write(wait_h):
        rows = [
            f"2026-01-{1 + day:02d}T00:00:00Z,{'' if wait_h is None else wait_h * HOUR},"
            f"{6 * HOUR},4,A100,completed"
            for day in range(30)
        ]
        head = "submit_time,queue_s,duration_s,num_gpus,gpu_type,state"
        path = tmp_path / "log.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
        return path

    return write


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.toml"
    path.write_text(BOOK)
    return path


def planned(gpuplan, log, *words):
    code, out, err = gpuplan("plan", log, *words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


PRICES = ("--on-demand", "2", "--commit", "1.2")


def test_waits_that_gpus_do_not_explain_leave_a_plan_without_advice(gpuplan, log, tmp_path):
    path = log(wait_h=10)
    results = planned(gpuplan, path, *PRICES)
    fidelity = results["fidelity"]
    assert (fidelity["verdict"], fidelity["policy"]) == ("contradicts", "first-fit")
    assert (fidelity["replayed_p95_wait_s"], fidelity["recorded_p95_wait_s"]) == (0, 10 * HOUR)
    assert results["confirmed"] is False
    assert results["unconfirmed"][0] == "a replay of today does not match the waits of the log"
    code, out, err = gpuplan("plan", path, *PRICES, "--full")
    assert code == 0, err
    text = " ".join(out.split())
    assert text.startswith("A replay of today's 4 GPUs under first-fit waits 0 s (P95), your log")
    assert "Today: 1.01 GPUs on average (peak 4), 16 h per job, $1,480" in text
    assert "if jobs waited for GPUs alone. What to buy" in text
    assert "saving" not in text.partition("What to buy")[0] and " less than " not in text
    assert "Today replayed under first-fit: contradicts" in text
    folder = tmp_path / "report"
    words = ("--study", "plan", "--set", "plan.on_demand=2", "--set", "plan.commit=1.2")
    code, out, err = gpuplan("report", path, *words, "-o", folder, "--formats", "md")
    assert code == 0, err
    summary = (folder / "report.md").read_text().split("##")[0]
    assert "Commit to" not in summary and "A replay of today" in summary


@pytest.mark.parametrize("wait_h", [0, None])
def test_a_log_that_its_replay_explains_or_without_waits_gets_a_plan(gpuplan, log, wait_h):
    path = log(wait_h)
    results = planned(gpuplan, path, *PRICES)
    assert results["fidelity"]["verdict"] == ("unknown" if wait_h is None else "agrees")
    assert gpuplan("plan", path, *PRICES)[1].startswith(("Commit to", "Not confirmed", "The "))


def test_todays_bill_is_that_of_every_study_and_stands_beside_what_a_plan_saves_on(
    gpuplan, log, book
):
    path = log(wait_h=0.1)
    words = ("--contracts", book)
    code, out, err = gpuplan("characterize", path, *words, "--output-format", "json")
    assert code == 0, err
    bill_usd = json.loads(out)["results"]["today"]["usd_per_month"]
    today = planned(gpuplan, path, *words, "--commit", "1.2")["today"]
    assert today["bill_usd_per_month"] == pytest.approx(bill_usd)
    # Above 2 owned GPUs, 2 GPUs for 6 of 24 hours at $2; owned ones are not in these dollars.
    assert today["usd_per_month"] == pytest.approx(2 * 0.25 * 2 * 730.5, rel=0.03)
    assert today["usd_per_month"] < 0.6 * bill_usd
    assert not today["price_is_assumed"]
    assert planned(gpuplan, path)["today"]["price_is_assumed"]
    # Without a book the bill is that of the jobs as recorded.
    alone = planned(gpuplan, path, *PRICES)["today"]
    assert alone["bill_usd_per_month"] == pytest.approx(alone["usd_per_month"])


def test_a_saving_over_other_dollars_than_the_bill_says_so(gpuplan, log, book):
    words = ("--contracts", book, "--spot", "num_gpus <= 4", "--spot-price", "0.4")
    code, out, err = gpuplan("plan", log(wait_h=0.1), *words)
    assert code == 0, err
    text = " ".join(out.split())
    assert "that today's jobs cost above the owned GPUs now (today's bill is $1,730, " in text
    assert "with owned GPUs, at the prices of each time)" in text
