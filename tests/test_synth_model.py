"""A model is stored and read back, or refused."""

import json

import pytest
from support_synth import (
    rows,
    workload,
)

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.synth import Request, fit_model, synthesize
from gpuplan.analysis.synth.store import read_model


@pytest.fixture(scope="module")
def model():
    return fit_model(workload())


@pytest.fixture(scope="module")
def text(model):
    return model.to_json()


def test_what_is_no_model_is_told_without_internals(tmp_path):
    for data, says in (
        (b"{}", "is JSON without a model version"),
        (b"[1]", "is JSON without a model version"),
        (b"PAR1\x15\xee\xff", "is not text"),
        (b"{", "is not JSON (Expecting property name"),
        (b'{"version": 1}', "does not hold the numbers of a model (no field 'source')"),
        (b'{"version": 1, "cells": 3}', "does not hold the numbers of a model"),
    ):
        (tmp_path / "m.json").write_bytes(data)
        with pytest.raises(InputError) as raised:
            read_model(tmp_path / "m.json")
        assert f"m.json: {says}" in str(raised.value)
        assert "Error" not in str(raised.value)
        assert "\n  next: gpuplan synth --like TRACE" in str(raised.value)


def test_a_stored_model_draws_the_same_jobs(model, tmp_path):
    (tmp_path / "m.json").write_text(model.to_json())
    again = read_model(tmp_path / "m.json")
    assert again == model
    synthesize(model, Request(500), tmp_path / "a.parquet")
    synthesize(again, Request(500), tmp_path / "b.parquet")
    assert rows(tmp_path / "a.parquet").equals(rows(tmp_path / "b.parquet"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "{",
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 99'),
        lambda text: text.replace('"count": 6', '"count": 0'),
        lambda text: text.replace('"+08:00"', '"Mars/Base"'),
        lambda text: text.replace('"cells": [', '"cells": [], "other": ['),
        lambda text: text.replace('"share": 0', '"share": 9'),
        lambda text: text.replace('"exponent": ', '"exponent": "x", "e": '),
        lambda text: text.replace('"crowd": [', '"crowd": [[0.5],', 1),
        lambda text: text.replace('"crowd": [', '"crowd": [], "other": [', 1),
        lambda text: text.replace('"bursting": null', '"bursting": 1.0'),
    ],
)
def test_a_damaged_model_is_refused(text, tmp_path, damage):
    (tmp_path / "m.json").write_text(damage(text))
    with pytest.raises(InputError, match=r"m\.json"):
        read_model(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("spot", "value"),
    [
        (("reference", "states"), {"unknown": None}),
        (("reference", "gpu_cdf", 0, 0), None),
        (("reference", "gpu_time_cdf", 0), [1.0]),
        (("reference", "by_hour"), "x"),
        (("holdings", 0, "priority"), "x"),
        (("holdings", 0, "share"), float("nan")),
        (("holdings",), []),
        (("cells", 0, "num_gpus"), 1e300),
        (("cells", 0), None),
        (("arrivals", "hours", "counts", "values_s", 0), -1.0),
        (("durations", 0, "values_s", -1), -5.0),
        (("durations", 0, "cap_s"), -5.0),
        (("states", "cpu"), []),
        (("states", "gpu", 0, 0), None),
        (("arrivals", "mean_gap_s"), float("nan")),
        (("arrivals", "step_s"), True),
        (("owners", "count"), 1.5),
        (("owners", "stay"), [1.0]),
        (("source",), 7),
    ],
)
def test_a_value_that_no_model_has_is_refused(text, tmp_path, spot, value):
    stored = json.loads(text)
    node = stored
    for key in spot[:-1]:
        node = node[key]
    node[spot[-1]] = value
    (tmp_path / "m.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match="does not hold the numbers of a model"):
        read_model(tmp_path / "m.json")


def test_laws_with_points_of_their_own_are_compared(text, tmp_path):
    stored = json.loads(text)
    stored["reference"]["gpu_time_cdf"][0][0] = 0.25
    (tmp_path / "m.json").write_text(json.dumps(stored))
    result = synthesize(read_model(tmp_path / "m.json"), Request(50), tmp_path / "a.parquet")
    assert "gpu_time_cdf.distance" in {row.statistic for row in result.compared}
