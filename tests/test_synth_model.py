"""A model is stored and read back, or refused."""

import pytest
from support_synth import (
    rows,
    workload,
)

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.synth import Request, fit_model, synthesize
from gpuplan.analysis.synth.store import read_model


@pytest.fixture(scope="module")
def original():
    return workload()


def test_what_is_no_model_is_told_without_internals(tmp_path):
    for data, says in (
        (b"{}", "is JSON, but tells no model version"),
        (b"[1]", "is JSON, but tells no model version"),
        (b"PAR1\x15\xee\xff", "is no text"),
        (b"{", "is no JSON (Expecting property name"),
        (b'{"version": 1}', "does not hold the numbers of a model (no field 'source')"),
        (b'{"version": 1, "cells": 3}', "does not hold the numbers of a model"),
    ):
        (tmp_path / "m.json").write_bytes(data)
        with pytest.raises(InputError) as raised:
            read_model(tmp_path / "m.json")
        assert f"m.json: {says}" in str(raised.value)
        assert "Error" not in str(raised.value)
        assert "\n  next: gpuplan synth --like TRACE" in str(raised.value)


def test_a_stored_model_draws_the_same_jobs(original, tmp_path):
    model = fit_model(original)
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
def test_a_damaged_model_is_refused(original, tmp_path, damage):
    (tmp_path / "m.json").write_text(damage(fit_model(original).to_json()))
    with pytest.raises(InputError, match=r"m\.json"):
        read_model(tmp_path / "m.json")
