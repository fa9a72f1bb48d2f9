"""Words of a log that the user explains: ``--map-value``, and those that are known."""

import json

import polars as pl
import pytest

from gpuplan.analysis.reading.plan import states

LOG = """submit_time,duration_s,num_gpus,state,priority
2026-03-01T00:00:00,60,1,OOMKilled,hp
2026-03-01T00:01:00,60,1,Evicted,batch
2026-03-01T00:02:00,60,1,Reaped,Batch
2026-03-01T00:03:00,60,1,Succeeded,
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


WORDS = ("--map-value", "state:Reaped=preempted", "--map-value", "priority:batch=spot")


def test_words_that_kubernetes_writes_are_known_and_others_are_explained(gpuplan, log, tmp_path):
    out = tmp_path / "t.parquet"
    named = ("--source-format", "csv", "-o", out)
    code, _, err = gpuplan("ingest", log, *named, *WORDS)
    assert code == 0, err
    jobs = pl.read_parquet(out)
    assert jobs["state"].cast(pl.String).to_list() == [
        "failed", "preempted", "preempted", "completed",
    ]  # fmt: skip
    assert jobs["priority"].cast(pl.String).to_list() == ["hp", "spot", "spot", None]


def test_every_command_that_takes_a_log_takes_the_words(gpuplan, log):
    counts = []
    for words in ((), WORDS):
        code, out, err = gpuplan(
            "characterize", log, "--source-format", "csv", "--max-rejects", "100%",
            "--output-format", "json", *words,
        )  # fmt: skip
        assert code == 0, err
        counts.append({one["state"]: one["jobs"] for one in json.loads(out)["results"]["states"]})
    assert counts[1] == {"completed": 1, "failed": 1, "preempted": 2}
    assert counts[0].get("preempted", 0) < 2  # and the cache tells the two readings apart


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Reaped=preempted", "must be state:WORD=VALUE or priority:WORD=VALUE"),
        ("state:Reaped=gone", "state must be one of completed"),
        ("user:a=b", "must be state:WORD=VALUE"),
    ],
)
def test_a_bad_word_is_refused(gpuplan, log, tmp_path, text, problem):
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "--map-value", text)
    assert code == 2 and problem in err


def test_a_plug_in_names_states_in_mixed_case():
    field = states("x", {"OOMKilled": "failed"})
    cells = pl.DataFrame({"x": ["OOMKilled", "oomkilled", "OOMKILLED", "fine"]})
    found = cells.select(field.value).to_series().cast(pl.String).to_list()
    assert found == ["failed"] * 3 + ["unknown"]
