"""Requests to language models at Azure: arrivals with their tokens, no run times.

Source: Patel et al., "Splitwise: Efficient Generative LLM Inference Using Phase Splitting",
ISCA 2024 (the 2023 trace); later years have the same columns.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, made_id
from gpuplan.analysis.reading.times import moment

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
INSTANT = "a time like 2023-11-16 18:17:03.9799600"


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS, "azure-llm")
    zone = context.choices.time_zone or "UTC"
    return ReadingPlan(
        fields=(
            Field("submit_time", "TIMESTAMP", moment("TIMESTAMP", zone), INSTANT, True, zone),
            count("context_tokens", "ContextTokens", least=0),
            count("generated_tokens", "GeneratedTokens", least=0),
        ),
        jobs={"job_id": made_id("request", context.number), "num_gpus": pl.lit(1.0)},
        notes=(
            "the log has no durations and no GPUs: 1 GPU per request is assumed, the tokens are "
            "left out",
        ),
        time_zone=zone,
        made_ids=True,
    )


AZURE_LLM = LogFormat(
    name="azure-llm",
    description="requests to language models at Azure (arrivals only)",
    source="Azure/AzurePublicDataset on GitHub, AzureLLMInferenceTrace",
    recognizes=partial(has_columns, names=COLUMNS),
    plan=_plan,
    takes_zone=True,
    columns=COLUMNS,
)
