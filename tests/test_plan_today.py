"""What a plan is compared with: today's commitments, which run on, and jobs as recorded."""

import pytest
from support_plan import BOTH, DAY, HOUR, MONTH_H, headline_of, results_of
from support_traces import write_trace

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
TODAY = """
[[commitment]]
gpu_type = "A100"
gpus = 3
usd_per_gpu_h = 1.1
from = 2020-01-01
until = 2027-01-01
[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 2.0
"""


@pytest.fixture
def days(tmp_path):
    """24 days: 1 GPU all the time, 4 more in the first 6 hours of each day."""
    submit = [DAY * day for day in range(24) for _ in range(2)]
    return write_trace(
        tmp_path / "days.parquet",
        submit,
        [DAY, 6 * HOUR] * 24,
        [1.0, 4.0] * 24,
        gpu_type=["A100"] * 48,
        queue_s=[0.0] * 48,
    )


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.toml").write_text(TODAY)
    return tmp_path / "book.toml"


def test_no_commitment_today_stands_in_place_of_those_of_the_book(gpuplan, days, book):
    words = ("--contracts", book, "--commit", "A100=0@1.1,1.1:1y")
    assert results_of(gpuplan, days, *words)["today"]["committed"] == []
    assert results_of(gpuplan, days, "--contracts", book, "--commit", "A100=1.2:1y")["today"][
        "committed"
    ]


def test_the_book_renews_types_that_commit_does_not_name(gpuplan, days, book):
    """A price of another type takes nothing from what is decided about this one."""
    other = write_trace(
        days.with_name("two.parquet"), [DAY * day for day in range(24)] * 2, [DAY] * 48,
        [1.0] * 48, gpu_type=["A100"] * 24 + ["T4"] * 24, queue_s=[0.0] * 48,
    )  # fmt: skip
    words = ("--contracts", book, "--on-demand", "T4=0.4", "--commit", "T4=0.2")
    bought = results_of(gpuplan, other, *words)["markets"]
    committed = {row["gpu_type"]: row["gpus"] for row in bought if row["name"] == "committed"}
    assert committed == {"A100": 1, "T4": 1}


def test_today_pays_for_its_commitments_and_rents_what_is_above(gpuplan, days, book):
    results = results_of(gpuplan, days, "--contracts", book)
    today = results["today"]
    # 3 committed at $1.10, and 2 of 5 GPUs a quarter of the time at $2
    assert today["usd_per_month"] == pytest.approx(MONTH_H * (3 * 1.1 + 2 * 2.0 / 4))
    assert today["committed"] == [
        {
            "gpu_type": "A100",
            "gpus": 3,
            "usd_per_month": pytest.approx(MONTH_H * 3.3),
            "until": "2027-01-01",
        }
    ]
    # the plan commits to the one that is always in use, and rents 4 a quarter of the time
    assert results["usd_per_month"] == pytest.approx(MONTH_H * (1.1 + 4 * 2.0 / 4))
    held_out = results["holdout"]["today"]
    assert held_out["committed_gpus"] == 3
    # the last 7.2 of 24 days begin 0.8 of a day in, so they have 7 of these quarters
    assert held_out["usd_per_month"] == pytest.approx(MONTH_H * (3.3 + 2 * 2 * 7 * 6 / (7.2 * 24)))


def test_the_headline_says_until_when_todays_commitments_run(gpuplan, days, book):
    text = headline_of(gpuplan, days, "--contracts", book)
    assert "27.9% less than the $3,140 of today's commitments and rent" in text
    assert "run on (3 A100 until 2027-01-01): fewer can apply only from then on." in text
    more = headline_of(gpuplan, days, "--commit", "A100=1@0.9,0.2", "--on-demand", "1.29")
    assert "run on" not in more  # the plan commits to more than today


def test_without_commitments_today_is_all_on_demand(gpuplan, days):
    results = results_of(gpuplan, days, *BOTH)
    assert results["today"]["committed"] == []
    assert results["today"]["usd_per_month"] == pytest.approx(MONTH_H * 1.29 * 2)
    assert results["holdout"]["today"]["committed_gpus"] is None
    out = gpuplan("plan", days, *BOTH)[1]
    assert "as recorded, all on demand" in out
    assert "run on" not in out and "What each lever is worth" not in out  # there is one lever


def test_a_cap_names_the_classes_that_wait(gpuplan, days):
    text = headline_of(gpuplan, days, *BOTH, "--cluster", "4", "--holdout", "0%")
    assert "No class takes" not in text
    said = "With the waits of the replay, 2 classes take over 1.1 times as long as today: all A100"
    assert said in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--commit", "X9=0.9"), "--commit X9: no job of the log is on X9"),
        ((*BOTH, "--owned", "X9=4"), "--owned X9: no job of the log is on X9"),
        (
            (*BOTH, "--on-demand", "X9=4", "--on-demand", "Y9=4"),
            "--on-demand X9: no job of the log is on X9, Y9\n  next: a GPU type of the log: A100",
        ),
        (("--on-demand", "A100=1.29", "--commit", "A100=0.9,X9=1"), "--commit X9: no job of"),
        ((*BOTH, "--serverless", "X9=4"), "next: a GPU type of the log: A100"),
        (
            (*BOTH, "--spot", "num_gpus = 1", "--spot-price", "X9=0.5"),
            "--spot-price X9: no job of the log is on X9",
        ),
        ((*BOTH, "--budget", "60gpu"), "dollars per hour, month, quarter or year"),
        ((*BOTH, "--budget", "$100"), "next: --budget '$120000/month'"),
    ],
)
def test_mistakes_are_refused_with_a_next_step(gpuplan, days, words, says):
    code, _, err = gpuplan("plan", days, *words)
    assert code == 2
    assert says in err


def test_owned_gpus_need_no_price(gpuplan, days):
    text = headline_of(gpuplan, days, "--owned", "A100=8")
    assert text.startswith("The 8 GPUs owned are enough: no GPU needs to be bought or rented.")
    text = headline_of(gpuplan, days, "--owned", "A100=4")
    assert "beside the 4 owned" in text and "at an assumed price, owned GPUs left out" in text


def test_a_company_pays_today_for_32_committed_gpus(gpuplan, company):
    options = (company / "jobs.csv.gz", "--contracts", company / "contracts.toml")
    today = results_of(gpuplan, *options)["today"]
    assert {row["gpu_type"]: (row["gpus"], row["until"]) for row in today["committed"]} == {
        "A100-80GB": (24, "2026-09-01"),
        "H100-80GB": (8, "2026-12-11"),
    }
