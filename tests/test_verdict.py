"""What opens a document: key figures, and a sentence per study, from the answers of its studies."""

from __future__ import annotations

from dataclasses import replace

import pytest
import support_document as made

from gpuplan.cli.documents.pages import as_html, as_markdown
from gpuplan.cli.documents.todays_figures import KeyFigure
from gpuplan.cli.documents.verdict import key_figures, verdict_of, verdicts_of

TODAY = {
    "mean_gpus": 37.46, "peak_gpus": 55.0, "mean_wait_s": 18764.0, "p95_wait_s": 73656.0,
    "mean_run_s": 18399.0, "mean_jct_s": 37163.0, "usd_per_gpu_h": None, "usd_per_month": None,
}  # fmt: skip
BILL = {"usd_per_gpu_h": 1.29, "usd_per_month": 35298.8}
KNEE = {
    "budget_gpus": 38.77,
    "mean_jct_s": 11319.0,
    "replay": {"mean_jct_s": 11406.0, "peak_gpus": 114, "rented_gpus": 39.31},
}
AGREES = {"fidelity": {"verdict": "agrees"}}
OPTION = {"name": "add-nodes 2", "usd_per_month": 7536.0, "waits": {"p95_wait_s": 19800.0}}
GROUP = {"effect_s": 14400.0, "error_s": 5346.0, "verdict": "longer"}


def study(command, headline="A.", **results):
    """A study of a command with these results."""
    return replace(
        made.study(command, results=results), command=command, headline=headline, name=command
    )


def test_today_opens_a_document_then_what_to_do():
    document = made.document(
        study("characterize", today=TODAY), study("pareto", today=TODAY, knee=KNEE, **AGREES)
    )
    assert key_figures(document) == [
        KeyFigure("GPUs today", "37.5", "on average, 55 at peak"),
        KeyFigure("Wait", "5.21 h", "mean; P95 20.5 h"),
        KeyFigure("Run time", "5.11 h", "mean"),
        KeyFigure(
            "Recommended", "38.8 GPUs on average",
            "3.17 h per job instead of 10.3 h, 114 GPUs at peak, 39.3 rented in the replay",
        ),
    ]  # fmt: skip


def test_a_recommendation_says_what_todays_peak_allows():
    within = {"replay_within_today_peak": {"mean_jct_s": 36000.0, "peak_gpus": 55}}
    document = made.document(study("pareto", today=TODAY, knee=KNEE | within))
    assert key_figures(document)[-1].detail == (
        "3.17 h per job instead of 10.3 h, 114 GPUs at peak (10 h per job within today's 55), "
        "39.3 rented in the replay"
    )


SLOW = {"budget_gpus": 419.0, "replay": {"mean_jct_s": 40000.0, "peak_gpus": 512}}


def test_what_is_slower_and_dearer_than_today_is_not_recommended():
    # A budget that is faster, but needs more GPUs, does not beat today either.
    faster = {"budget_gpus": 500.0, "replay": {"mean_jct_s": 30000.0, "peak_gpus": 700}}
    found = key_figures(
        made.document(study("pareto", today=TODAY, knee=SLOW, points=[SLOW, faster], **AGREES))
    )[-1]
    assert (found.name, found.value) == ("Recommended", "Keep today's GPUs")
    assert found.detail == (
        "no evaluated budget beats today in both time and cost; the best trade-off of them, "
        "419 GPUs on average, takes 11.1 h per job instead of 10.3 h"
    )


def test_a_budget_that_beats_today_is_recommended_where_the_knee_does_not():
    better = {"budget_gpus": 30.0, "replay": {"mean_jct_s": 30000.0, "peak_gpus": 50}}
    document = made.document(
        study("pareto", today=TODAY, knee=SLOW, points=[SLOW, better], **AGREES)
    )
    assert key_figures(document)[-1] == KeyFigure(
        "Recommended", "30 GPUs on average", "8.33 h per job instead of 10.3 h, 50 GPUs at peak"
    )


def test_a_bill_of_any_study_is_shown_and_unknown_waits_are_named():
    without = TODAY | {"mean_wait_s": None, "p95_wait_s": None, "mean_jct_s": None}
    document = made.document(
        study("characterize", today=without), study("compare", today=without | BILL)
    )
    assert key_figures(document)[1:] == [
        KeyFigure("Wait", "unknown", "the log has no waits"),
        KeyFigure("Run time", "5.11 h", "mean"),
        KeyFigure("Bill", "$35,300 a month", "at $1.29 per GPU-hour"),
    ]


@pytest.mark.parametrize(
    ("command", "results", "figure"),
    [
        ("size", {"gpus": 48, "usd_per_month": 45200.0},
         KeyFigure("Option", "48 GPUs", "$45,200 a month, busy or not")),
        ("pareto", {"knee": {"budget_usd_per_h": 12.5, "mean_jct_s": 60.0}, **AGREES},
         KeyFigure("Recommended", "$12.50 an hour", "60 s per job")),
        ("sweep", {"recommended": {"cost_usd": 784.1, "mean_jct_s": 60.0}, "verdict": {}},
         KeyFigure("Option", "Rented GPUs", "$784, 60 s per job")),
        ("whatif", {"changes": [{"name": "add-nodes 2", "groups": [GROUP]}]},
         KeyFigure("Mean wait with add-nodes 2", "+4 h", "longer; error 89.1 min")),
        ("options", {"cheapest": "add-nodes 2", "targets": ["p95_wait <= 6h"], "options": [OPTION]},
         KeyFigure("Cheapest for p95_wait <= 6h", "add-nodes 2",
                   "$7,540 a month more, P95 wait 5.5 h")),
    ],
)  # fmt: skip
def test_what_a_study_recommends(command, results, figure):
    assert key_figures(made.document(study(command, **results))) == [figure]


LAW = {"name": "power:0.8", "origin": "an assumed law"}


def test_what_is_on_other_terms_than_today_is_an_option_beside_todays_bill():
    # A speedup that nobody measured, GPUs paid busy or not, and a sweep without a replay of today.
    today = TODAY | BILL
    knee = KNEE | {"usd_per_month": 36500.0}
    size = {"gpus": 60, "usd_per_month": 56500.0, "today": {"cluster_gpus": None}}
    figures = key_figures(
        made.document(
            study("characterize", today=today), study("pareto", speedup=LAW, knee=knee),
            study("size", **size),
        )
    )  # fmt: skip
    assert figures[3] == KeyFigure("Bill", "$35,300 a month", "at $1.29 per GPU-hour")
    assert figures[4:] == [
        KeyFigure(
            "Option", "60 GPUs",
            "$56,500 a month, busy or not, today's bill is $35,300, today's peak is 55",
        ),
        KeyFigure(
            "Option", "38.8 GPUs on average",
            "3.17 h per job instead of 10.3 h, 114 GPUs at peak, 39.3 rented in the replay, "
            "$36,500 a month (today $35,300), "
            "if jobs scale as power:0.8",
        ),
    ]  # fmt: skip
    measured = study("pareto", speedup={"name": "p", "origin": "measured"}, knee=knee, **AGREES)
    figures = key_figures(made.document(study("characterize", today=today), measured))
    assert figures[-1].name == "Recommended"


def sized(month=60300.0, **more):
    """60 GPUs in place of a cluster of 64, which costs so much a month around the clock."""
    now = {"cluster_gpus": 64, "usd_per_month": month, "mean_gpus": 37.46}
    pool = {"name": "all", "gpus": 60, "today": {"cluster_gpus": 64, "usd_per_month": 60300.0}}
    more = AGREES | more
    return study("size", gpus=60, usd_per_month=56500.0, today=now, pools=[pool], **more)


def test_a_size_is_recommended_where_todays_cluster_is_paid_alike_and_its_replay_agrees():
    def figure(*studies):
        return key_figures(made.document(*studies))[-1]

    detail = "$56,500 a month (today $60,300)"
    assert figure(sized()) == KeyFigure("Recommended", "60 GPUs", detail)
    for verdict in ("contradicts", "unknown"):
        assert figure(sized(fidelity={"verdict": verdict})).name == "Option"
    # Today's bill is for GPUs in use, in the study itself or in another one of the document.
    of_use = figure(sized(month=35298.8))
    assert of_use == KeyFigure(
        "Option", "60 GPUs", "$56,500 a month, busy or not, today's bill is $35,300"
    )
    beside = figure(study("characterize", today=TODAY | BILL), sized())
    assert beside == KeyFigure(
        "Option", "60 GPUs",
        "$56,500 a month, busy or not, against $60,300 for today's 64 GPUs, today's peak is 55",
    )  # fmt: skip


def planned(**more):
    """A plan of a log without owned GPUs."""
    now = {"mean_gpus": 37.46, "mean_time_s": 37163.0, "usd_per_month": 35298.8}
    now |= {"bill_usd_per_month": 35298.8, "price_is_assumed": False} | more.pop("now", {})
    gpus = {
        "committed": (20.0, 15.0),
        "spot": (0.0, more.pop("spot", 0.0)),
        "on_demand": (0.0, 5.0),
    }
    markets = [
        {"name": name, "gpu_type": "A100", "gpus": there, "mean_gpus": used}
        for name, (there, used) in gpus.items()
    ]
    results = {"usd_per_month": 30000.0, "mean_time_s": 36000.0, "confirmed": True, "replay": None}
    results["intervals"] = {"saving_share": None, "saving_over_on_demand_share": {"low": 0.1}}
    results |= {"holdout": {"saved": True}, "losses_are_assumed": False, "assumed_speedup": None}
    results |= {"today": now, "markets": markets} | AGREES | more
    return study("plan", **results)


def test_a_plan_is_recommended_on_the_terms_of_todays_bill_alone():
    def figures(plan):
        return key_figures(made.document(study("characterize", today=TODAY | BILL), plan))

    assert figures(planned())[3:] == [
        KeyFigure("Bill", "$35,300 a month", "at $1.29 per GPU-hour"),
        KeyFigure(
            "Recommended", "Commit to 20 A100 GPUs",
            "$30,000 a month (today $35,300), 10 h per job instead of 10.3 h, confirmed",
        ),
    ]  # fmt: skip
    # Its dollars leave out owned GPUs, which the bill has: two sums never stand as one today.
    owned = figures(planned(now={"usd_per_month": 20000.0}))
    assert [figure.value for figure in owned[3:]] == ["$35,300 a month", "Commit to 20 A100 GPUs"]
    assert owned[-1].name == "Option"
    terms = "$30,000 a month (today $20,000 on the same terms, without owned GPUs and past prices)"
    assert owned[-1].detail.startswith(terms)
    assert figures(planned(confirmed=False))[-1].name == "Option"
    assert figures(planned(assumed_speedup="power:0.8"))[-1].name == "Option"
    # What did not save on the part held out, or costs as much as today, is no recommendation.
    unsaved = figures(planned(holdout={"saved": False}))[-1]
    assert unsaved.name == "Option" and unsaved.detail.endswith("its saving not confirmed")
    assert figures(planned(usd_per_month=35290.0))[-1].name == "Option"
    dearer = {"usd_per_month": 36000.0, "mean_time_s": 40000.0}
    replayed = figures(planned(replay=dearer))[-1]
    assert replayed.name == "Option" and replayed.detail.startswith("$36,000 a month (today $35,3")
    within_noise = {"saving_share": {"low": -0.02}, "saving_over_on_demand_share": {"low": 0.1}}
    assert figures(planned(intervals=within_noise))[-1].name == "Option"
    nothing = [{"name": "on_demand", "gpu_type": "A100", "gpus": 0.0, "mean_gpus": 20.0}]
    assert figures(planned(usd_per_month=35290.0, markets=nothing))[-1].name == "Bill"
    on_spot = figures(planned(spot=20.0, losses_are_assumed=True))[-1]
    assert on_spot.name == "Option" and "50.0% of the GPU-hours on spot" in on_spot.detail
    assert figures(planned(spot=20.0))[-1].name == "Recommended"
    contradicted = planned(fidelity={"verdict": "contradicts"})
    assert figures(contradicted)[-1].name == "Bill"


def test_a_plan_alone_shows_the_bill_and_whether_its_price_is_assumed():
    alone = key_figures(made.document(planned(now={"price_is_assumed": True})))
    assert alone[-2] == KeyFigure("Bill", "assumed $35,300 a month")
    assert alone[-1].name == "Option"
    assert alone[-1].detail.startswith("assumed $30,000 a month (today assumed $35,300), ")


def test_dollars_that_the_user_gave_are_not_called_assumed():
    today = TODAY | BILL | {"price_is_assumed": True}
    said = "With --budget $500/month it costs $9 over the budget of $500, by -$3 to $4."
    assert verdict_of(study("plan", said, today=today)) == (
        "With --budget $500/month it costs assumed $9 over the budget of $500, by assumed -$3 to "
        "$4."
    )


def test_each_dollar_at_a_price_that_nobody_gave_is_marked():
    today = TODAY | BILL | {"price_is_assumed": True}
    found = study("compare", "Today: 3 GPUs. On 9 GPUs ($900 a month), all tie.", today=today)
    document = made.document(study("characterize", today=TODAY), found)
    assert key_figures(document)[-1] == KeyFigure(
        "Bill", "assumed $35,300 a month",
        "at an assumed $1.29 per GPU-hour: give --price or --contracts",
    )  # fmt: skip
    assert verdict_of(found) == "On 9 GPUs (assumed $900 a month), all tie."
    assert "assumed" not in verdict_of(study("compare", found.headline, today=TODAY | BILL))


def bill(usd, **parameters):
    """A bill of a log of two weeks, or of a part of it."""
    results = {"usd_per_month": usd, "usd": usd / 2, "mean_gpus": 37.46, "cluster_gpus": 48}
    period = {"begin": "2026-01-05T00:00:00Z", "end": "2026-01-20T00:00:00Z"}
    made_study = study("bill", **results, **period)
    return replace(made_study, contract=made_study.contract | {"parameters": parameters})


ASSUMED = TODAY | BILL | {"price_is_assumed": True}


def test_a_bill_at_given_prices_is_shown_before_one_at_an_assumed_price():
    best = {"recommended": {"cost_usd": 9.0, "usd_per_month": 1310.0, "mean_jct_s": 60.0}}
    found = key_figures(made.document(bill(65075.0), study("sweep", today=ASSUMED, **best)))
    # The dollars of the sweep are not those of the bill, so they are not compared.
    assert [(figure.name, figure.value, figure.detail) for figure in found[3:]] == [
        ("Bill", "$65,100 a month", ""),
        ("Option", "Rented GPUs", "assumed $1,310 a month, 60 s per job"),
    ]


def test_a_bill_is_shown_where_the_study_with_run_times_has_none():
    document = made.document(study("characterize", today=TODAY), bill(65075.0))
    assert [figure.name for figure in key_figures(document)] == [
        "GPUs today", "Wait", "Run time", "Bill"
    ]  # fmt: skip
    size = {"cluster_gpus": None, "mean_gpus": 3.0, "peak_gpus": 5.0, "usd_per_month": 900.0}
    document = made.document(study("characterize", today=TODAY), study("size", today=size))
    assert key_figures(document)[-1] == KeyFigure("Bill", "$900 a month")


def test_a_bill_at_the_rates_of_another_study_is_shown_with_them():
    document = made.document(bill(35298.80), study("compare", today=TODAY | BILL))
    assert key_figures(document)[-1] == KeyFigure(
        "Bill", "$35,300 a month", "at $1.29 per GPU-hour"
    )


@pytest.mark.parametrize(
    ("parameters", "figure"),
    [
        ({"months": "2026-01,2026-02"}, KeyFigure("Bill", "$32,500", "in 2026-01 and 2026-02")),
        ({"period": {"from": "2026-01-05"}},
         KeyFigure("Bill", "$32,500", "from 2026-01-05 to 2026-01-20")),
        ({"cluster": "48"}, KeyFigure("Bill", "$65,000 a month", "for 48 GPUs, busy or not")),
    ],
)  # fmt: skip
def test_the_bill_of_a_part_says_of_which(parameters, figure):
    part = bill(65000.0, **parameters)
    assert key_figures(made.document(part)) == [figure]
    assert key_figures(made.document(part, study("compare", today=ASSUMED)))[-1] == figure
    given = study("compare", today=TODAY | BILL)
    assert key_figures(made.document(part, given))[-1].value == "$35,300 a month"


@pytest.mark.parametrize("command", ["size", "pareto", "sweep", "whatif", "options", "simulate"])
def test_a_study_may_recommend_nothing(command):
    assert key_figures(made.document(study(command, jobs=3))) == []


@pytest.mark.parametrize(
    ("headline", "sentence"),
    [
        ("Today: 37.5 GPUs on average. 810 jobs over 15.8 d. More.", "810 jobs over 15.8 d."),
        ("srtf is fastest, vs. FIFO. Then more.", "srtf is fastest, vs. FIFO."),
        ("Today: 3 GPUs.", "Today: 3 GPUs."),
        ("$784 in\nall, 3.5 h. More.", "$784 in all, 3.5 h."),
        ("", ""),
    ],
)
def test_one_sentence_per_study(headline, sentence):
    assert verdict_of(study("compare", headline)) == sentence


def test_a_plan_has_what_came_of_it_on_time_that_it_has_not_seen():
    bought = "Commit to 3 GPUs for $9 a month."
    tried = "On the last 30% of the log, a plan of the first 70% cost $9 a month: "
    for end in (
        "confirmed.",
        "confirmed; all on demand as recorded would have cost less there too, $8.",
        "its cost held on the last 30% of the log, its saving did not, for $8 would do.",
    ):
        headline = f"{bought} Mean time 3 h per job, as today. {tried}{end}"
        assert verdict_of(study("plan", headline)) == f"{bought} {tried}{end}"
    assert verdict_of(study("plan", "Not confirmed (why): commit to 3 GPUs. Mean time 3 h.")) == (
        "Not confirmed (why): commit to 3 GPUs."
    )


def test_a_plan_keeps_from_when_it_can_apply():
    bought = "Commit to 3 GPUs for $9 a month, 7% less than the $10 of today's commitments."
    until = (
        "Today's commitments run on (8 H100 until 2026-12-11): fewer can apply only from then on."
    )
    headline = f"{bought} {until} Mean time 3 h per job, as today."
    assert verdict_of(study("plan", headline)) == f"{bought} {until}"


def test_waits_have_their_reasons_and_whether_the_cluster_is_too_small():
    why = (
        "By the last reason that Slurm kept of each job, 41% of the wait is your per-user GPU "
        "limit (QOSMaxGRESPerUser, 16 GPUs)."
    )
    small = "Is the cluster too small? In part: 31% of the wait had too few free GPUs."
    start = "A job waits 3 h on average from submission to start (P95 9 h)."
    headline = f"{start} {why} {small}\nToday: 37 GPUs on average (peak 55), 5 h per job. 9 jobs."
    assert verdict_of(study("waits", headline)) == f"{start} {why} {small}"


def test_a_document_opens_with_figures_and_a_sentence_per_study():
    document = made.document(
        study("characterize", "Today: 3 GPUs. 5 jobs.", today=TODAY), study("compare", "Equal."),
        study("simulate", ""),
    )  # fmt: skip
    assert [text for _, text in verdicts_of(document)] == ["5 jobs.", "Equal."]
    written = as_markdown(document)
    assert written.split("\n")[2:5] == [
        "| GPUs today | Wait | Run time |",
        "|---|---|---|",
        "| **37.5** on average, 55 at peak | **5.21 h** mean; P95 20.5 h | **5.11 h** mean |",
    ]
    assert "- **The workload.** 5 jobs." in written
    page = as_html(document)
    assert page.index('<dl class="figures">') < page.index('<dl class="answers">')
    assert "<dt>GPUs today</dt><dd><strong>37.5</strong>" in page


def test_a_sweep_at_other_prices_than_todays_bill_says_so():
    best = {"recommended": {"cost_usd": 784.1, "usd_per_month": 65000.0, "mean_jct_s": 60.0}}
    for usd, cost in (
        (1.29, "$65,000 a month (today $35,300)"),
        (1.66, "$65,000 a month at the pay-per-use prices of the end of the log"),
    ):
        found = study("sweep", today=TODAY | BILL, today_cluster={"usd_per_gpu_h": usd}, **best)
        assert key_figures(made.document(found))[-1].detail == f"{cost}, 60 s per job"


def test_assumed_is_said_of_each_dollar_and_of_a_range_once():
    today = TODAY | BILL | {"price_is_assumed": True}
    found = study("sweep", "It costs $10 to $20 a month, at $1.29 per GPU-hour.", today=today)
    assert verdict_of(found) == (
        "It costs assumed $10 to $20 a month, at assumed $1.29 per GPU-hour."
    )
    said = "It costs $9 a month at an assumed $1.29 per GPU-hour."
    assert verdict_of(study("sweep", said, today=today)) == said.replace("$9", "assumed $9")
