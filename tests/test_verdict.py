"""The sentence that opens a document, from the numbers of its studies."""

from __future__ import annotations

from dataclasses import replace

import pytest
import support_document as made

from gpuplan.cli.documents.markdown import as_markdown
from gpuplan.cli.documents.page import as_html
from gpuplan.cli.documents.verdict import verdict_of
from gpuplan.cli.documents.view import others_of

KNEE = {"budget_gpus": 3.496, "mean_jct_s": 749.2}
BEST = {
    "policy": "fixed",
    "threshold_s": 60.0,
    "capacity": None,
    "cost_usd": 784.1,
    "saving_share": 0.6676,
}
POLICIES = [
    {"label": "fifo", "cost_usd": 725.8, "mean_jct_s": 1310.0},
    {"label": "las", "cost_usd": 2359.4, "mean_jct_s": 1255.0},
]


def said(command, **results):
    """The verdict on one study with these results."""
    return verdict_of(made.document(replace(made.study(results=results), command=command)))


@pytest.mark.parametrize(
    ("changed", "alone", "sentence"),
    [
        (
            *({}, 2715.2),
            "Plan for about 3.5 GPUs: jobs then take 12.5 min on average instead of 45.3 min on "
            "one GPU each.",
        ),
        (
            *({"usd_per_month": 3292.46}, None),
            "Plan for about 3.5 GPUs ($3,292 a month): jobs then take 12.5 min on average.",
        ),
        (
            *({"budget_gpus": 1.0}, 750.0),
            "Plan for about 1 GPU: jobs take 12.5 min on average, and more GPUs gain little.",
        ),
        (
            *({"budget_usd_per_h": 12.5}, None),
            "Plan for about $12.50 an hour: jobs then take 12.5 min on average.",
        ),
    ],
)
def test_a_budget_is_what_to_plan_for(changed, alone, sentence):
    assert said("pareto", knee=KNEE | changed, one_gpu_mean_jct_s=alone) == sentence


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {},
            "Moving jobs from serverless to rented GPUs after 60 s costs $784, 67% less than "
            "everything serverless.",
        ),
        (
            {"threshold_s": 0.0, "capacity": 8, "saving_share": -0.1},
            "Moving jobs from serverless to rented GPUs, 8 at most, at once costs $784, 10% "
            "more than everything serverless.",
        ),
        (
            {"policy": "allpass", "saving_share": None},
            "Moving jobs from serverless to rented GPUs at an adaptive threshold costs $784.",
        ),
        (
            {"policy": "serverless_only", "threshold_s": None},
            "Running everything serverless, for $784, is the best of what was tried.",
        ),
    ],
)
def test_a_threshold_is_told_with_its_saving(changed, sentence):
    assert said("sweep", recommended=BEST | changed) == sentence


def test_policies_are_the_cheapest_and_the_quickest():
    assert said("compare", policies=POLICIES, cheapest="fifo", fastest="las") == (
        "Of 2 policies fifo is the cheapest ($726 in all, 21.8 min a job) and las the quickest "
        "($2,359 in all, 20.9 min a job)."
    )
    assert said("compare", policies=POLICIES, cheapest="las", fastest="las") == (
        "Of 2 policies las is the cheapest and the quickest ($2,359 in all, 20.9 min a job)."
    )
    assert said("compare", policies=POLICIES[:1], cheapest="fifo", fastest="fifo") == ""
    one = {"policy": "fifo", "cost_usd": 725.8, "mean_jct_s": 1310.0}
    assert said("simulate", **one) == "Fifo gives $726 in all, 21.8 min a job."


def test_a_document_opens_with_one_sentence_of_its_studies():
    sweep = replace(made.study("cloud", results={"recommended": BEST}), command="sweep")
    document = made.document(
        made.study("plain"), sweep, made.study("tight", results={"knee": KNEE}), made.study("last")
    )
    sentence = (
        "Plan for about 3.5 GPUs: jobs then take 12.5 min on average; moving jobs from serverless "
        "to rented GPUs after 60 s costs $784, 67% less than everything serverless."
    )
    assert verdict_of(document) == sentence
    assert [study.name for study in others_of(document)] == ["plain", "last"]
    assert as_markdown(document).split("\n")[2] == f"**{sentence}**"
    assert as_markdown(document).count("- **Completion time by budget: ") == 2
    page = as_html(document)
    assert page.index(sentence) < page.index('<dl class="answers">')
    assert verdict_of(made.document()) == ""
