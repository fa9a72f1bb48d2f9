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
    """Return what writes a log: a job of 4 GPUs for 6 hours on each of 30 days, after some wait."""

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
    assert "that today's jobs cost above the owned GPUs now (today's bill is $1,730: " in text
    assert "owned GPUs, the whole log, at the prices of its time)" in text
    # Without a lever today's bill is another sum all the same.
    text = " ".join(gpuplan("plan", log(wait_h=0.1), "--contracts", book)[1].split())
    assert "about the same as" in text and "(today's bill is $1,730: " in text


def test_the_bill_of_a_part_of_a_log_leaves_out_pools_of_other_types(gpuplan, log, tmp_path):
    path = log(wait_h=0.1)
    rows = path.read_text().splitlines()
    others = [row.replace("A100", "H100") for row in rows[1:]]
    path.write_text("\n".join([rows[0], *sorted([*rows[1:], *others])]) + "\n")
    book = tmp_path / "two.toml"
    book.write_text(
        '[[owned]]\ngpu_type = "H100"\ngpus = 100\nusd_per_gpu_h = 1.0\n'
        + "".join(
            f'[[price]]\ngpu_type = "{name}"\nkind = "on_demand"\nusd_per_gpu_h = {usd}\n'
            for name, usd in (("A100", 2.0), ("H100", 3.0))
        )
    )
    words = ("--contracts", book, "--where", "gpu_type = 'A100'")
    today = planned(gpuplan, path, *words)["today"]
    code, out, err = gpuplan("characterize", path, *words, "--output-format", "json")
    assert code == 0, err
    bill_usd = json.loads(out)["results"]["today"]["usd_per_month"]
    assert today["bill_usd_per_month"] == pytest.approx(bill_usd)
    assert bill_usd < 2000


@pytest.mark.parametrize(
    "words",
    [("--price", "2", "--commit", "A100=4@0.9"),
     ("--price", "2", "--on-demand", "3", "--commit", "1")],
)  # fmt: skip
def test_prices_typed_for_a_plan_make_its_bill(gpuplan, log, words):
    today = planned(gpuplan, log(wait_h=0.1), *words)["today"]
    assert today["bill_usd_per_month"] == pytest.approx(today["usd_per_month"])


def test_a_cap_far_below_what_jobs_held_is_not_todays_cluster(gpuplan, tmp_path):
    # 6 jobs of 2 h start side by side each day after 3 h: 2 GPUs would make them wait as long.
    rows = [
        f"2026-01-{1 + day:02d}T00:00:00Z,{3 * HOUR},{2 * HOUR},1,A100,completed"
        for day in range(30)
        for _ in range(6)
    ]
    path = tmp_path / "log.csv"
    path.write_text(
        "\n".join(["submit_time,queue_s,duration_s,num_gpus,gpu_type,state", *rows]) + "\n"
    )
    fidelity = planned(gpuplan, path, *PRICES, "--cluster", "2")["fidelity"]
    assert (fidelity["verdict"], fidelity["cluster_gpus"]) == ("contradicts", 6)


def test_today_is_replayed_under_the_policy_of_the_queue(gpuplan, tmp_path):
    # 2 GPUs, jobs of 1, 2 and 1 GPUs of 6 h each day: first in, first out makes the third one wait
    # for 12 h where first fit starts it at once.
    rows = [
        f"2026-01-{1 + day:02d}T00:00:0{place}Z,{wait * HOUR},{6 * HOUR},{gpus},A100,completed"
        for day in range(30)
        for place, (wait, gpus) in enumerate(((0, 1), (6, 2), (12, 1)))
    ]
    path = tmp_path / "log.csv"
    path.write_text(
        "\n".join(["submit_time,queue_s,duration_s,num_gpus,gpu_type,state", *rows]) + "\n"
    )
    words = (*PRICES, "--cluster", "2")
    assert planned(gpuplan, path, *words)["fidelity"]["verdict"] == "contradicts"
    fidelity = planned(gpuplan, path, *words, "--policy", "fifo")["fidelity"]
    assert (fidelity["verdict"], fidelity["policy"]) == ("agrees", "fifo")


def test_waits_of_a_few_jobs_are_not_promised_to_end(gpuplan, tmp_path):
    rows = [
        f"2026-01-{1 + day:02d}T00:00:00Z,{10 * HOUR},{6 * HOUR},4,A100,completed"
        for day in range(19)
    ]
    path = tmp_path / "log.csv"
    path.write_text(
        "\n".join(["submit_time,queue_s,duration_s,num_gpus,gpu_type,state", *rows]) + "\n"
    )
    text = " ".join(gpuplan("plan", path, *PRICES)[1].split())
    assert "Today was not replayed (fewer than 20 jobs have a recorded wait), so whether" in text
    assert "less time per job" not in text


def test_what_is_left_of_a_plan_that_the_log_contradicts_is_no_advice(gpuplan, log, tmp_path):
    older = tmp_path / "plan.toml"
    assert gpuplan("plan", log(wait_h=0), *PRICES, "-o", older)[0] == 0
    path = log(wait_h=10)
    code, out, err = gpuplan("plan", path, "--keep", older, "-o", tmp_path / "new.toml")
    assert code == 0 and "Keep the plan" not in out
    assert "contradicts the log, so this plan is not to be put into effect" in err
    deferred = gpuplan("plan", path, *PRICES, "--defer", "num_gpus = 4:6h")[1]
    assert "Today: 1.01 GPUs on average (peak 4), $1,480 a month." in " ".join(deferred.split())
    assumed = " ".join(gpuplan("plan", path)[1].split())
    assert "16 h per job, an assumed $95" in assumed
