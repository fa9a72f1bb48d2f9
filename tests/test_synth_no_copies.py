"""No row of a synthetic trace is one of the original's."""

import numpy as np
import polars as pl
import pytest
import support_traces
from support_synth import (
    KEY,
    rows,
    synthetic,
    usual,
    workload,
)

from gpuplan.analysis.job_table.schema import Provenance
from gpuplan.analysis.synth import Request, fit_model, synthesize
from gpuplan.analysis.synth.store import read_model
from gpuplan.analysis.synth.write import RECORDED
from gpuplan.analysis.trace.trace import read_trace


@pytest.fixture(scope="module")
def original():
    return usual()


def test_no_row_of_the_original_occurs_even_where_chance_would_make_one(tmp_path):
    """One duration, one width, a job every second: drawn freely, most rows would be recorded."""
    trace = workload(
        2000,
        arrivals=lambda rng, n: np.arange(n) * 1.0,
        duration_s=[30.0] * 2000,
        num_gpus=[1.0] * 2000,
        job_class=["Eval"] * 2000,
    )
    utc = Provenance(source_format="canonical", time_zone="UTC")
    trace = support_traces.in_memory(trace.jobs, utc)
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert drawn.join(trace.jobs, on=KEY, how="semi").is_empty()
    assert result.rows_moved == drawn.filter(pl.col("duration_s") == 31).height > 1000
    ordinary = workload()
    synthetic(ordinary, tmp_path / "u.parquet")
    assert rows(tmp_path / "u.parquet").join(ordinary.jobs, on=KEY, how="semi").is_empty()


@pytest.mark.parametrize("job_class", ["Eval", None])
def test_no_row_without_a_duration_is_one_of_the_original(tmp_path, job_class):
    """A job every second, nothing else known: drawn freely, every row would be a recorded one."""
    count = 1000
    trace = workload(
        count,
        arrivals=lambda rng, n: np.arange(n) * 1.0,
        duration_s=[None] * count,
        state=["unknown"] * count,
        num_gpus=[1.0] * count,
        job_class=[job_class] * count,
    )
    utc = Provenance(source_format="canonical", time_zone="UTC")
    trace = support_traces.in_memory(trace.jobs, utc)
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    key = ["submit_time", "num_gpus", "job_class"]
    assert drawn.join(trace.jobs, on=key, how="semi", nulls_equal=True).is_empty()
    assert drawn["submit_time"].is_sorted() and drawn.height == count
    off = (drawn["submit_time"].dt.epoch("us") % 1_000_000 == 500_000).sum()
    assert result.rows_moved == off > 900
    other = trace.jobs.with_columns(num_gpus=pl.lit(2.0))  # another width is another row
    recorded = other.select(RECORDED)
    free = synthesize(fit_model(trace), Request(count), tmp_path / "u.parquet", recorded=recorded)
    assert free.rows_moved == 0


@pytest.mark.parametrize(("timed", "warned"), [(0, False), (1, True), (99, True), (100, False)])
def test_a_model_of_a_few_jobs_is_warned_of(tmp_path, timed, warned):
    trace = workload(150, duration_s=[12345.678] * timed + [None] * (150 - timed))
    result = synthetic(trace, tmp_path / "t.parquet")
    says = f"fitted to {timed} job{'' if timed == 1 else 's'} with a duration, below 100: "
    assert [w.startswith(says) for w in result.model.warnings] == [True] * warned
    notes = read_trace(tmp_path / "t.parquet").provenance.notes
    assert any(says in note for note in notes) == warned
    stored = tmp_path / "m.json"
    stored.write_text(result.model.to_json())
    assert read_model(stored).warnings == result.model.warnings


def test_a_model_holds_no_row(original):
    text = fit_model(original).to_json()
    assert len(text) < 80_000  # of 6,000 jobs
    assert "u0" not in text and "g1" not in text
