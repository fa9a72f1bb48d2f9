"""Every command's JSON is what its schema says, with no field that the schema does not name."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path

import pytest
import support_document as made
import support_schemas
from support_schemas import FOLDER, schema_of

from gpuplan.cli.app.lazy import COMMANDS

pytestmark = pytest.mark.timeout(600)  # all commands, on a clean checkout with their kernels
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the dev extra")
referencing = pytest.importorskip("referencing", reason="it comes with jsonschema")

NO_JSON = {"demo", "init"}
GROW = (
    "it may be new: give it a type, and run python -m gpuplan.cli.documents.result_schemas to "
    "write the schemas"
)


def closed(schema):
    """Return a schema that allows no field it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        found.setdefault("additionalProperties", False)
    return found


@functools.cache
def registry():
    return referencing.Registry().with_resources(
        (f"urn:gpuplan:schema:1:{name}", referencing.Resource.from_contents(schema_of(name)))
        for name in (path.stem for path in FOLDER.glob("*.json"))
    )


@functools.cache
def validator_of(command: str, *, strict: bool):
    schema = schema_of(command)
    return jsonschema.Draft202012Validator(
        closed(schema) if strict else schema, registry=registry()
    )


def problems(command: str, document, *, strict: bool) -> list[str]:
    errors = validator_of(command, strict=strict).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in map(nearest, errors)]


def nearest(error):
    """Return the error of the option of an ``anyOf`` that a value comes nearest to."""
    while error.context:
        options = {}
        for part in error.context:
            options.setdefault(part.relative_schema_path[0], []).append(part)
        parts = min(options.values(), key=lambda parts: (len(parts), -len(parts[0].absolute_path)))
        error = parts[0]
    return error


@pytest.fixture(scope="module")
def documents():
    """The JSON of every run that the schemas describe."""
    return [row[:3] for row in support_schemas.outputs()[1]]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_a_schema_is_one(name):
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:gpuplan:schema:1:{name}"
    assert schema["properties"]["command"] == {"const": name}


def test_every_command_with_json_has_a_schema():
    described = {path.stem for path in FOLDER.glob("*.json")}
    assert described == set(COMMANDS) - NO_JSON


def test_every_field_of_every_run_is_described(documents):
    for command, arguments, document in documents:
        assert not problems(command, document, strict=True), (command, arguments, GROW)


def test_the_runs_reach_every_schema(documents):
    assert {command for command, _, _ in documents} == {
        path.stem for path in FOLDER.glob("*.json")
    } - {"report"}


def test_what_is_missing_or_of_a_wrong_type_is_refused(documents):
    for command, document in {command: document for command, _, document in documents}.items():
        for key in ("inputs", "results", "parameters", "gpuplan_version"):
            broken = {name: value for name, value in document.items() if name != key}
            assert problems(command, broken, strict=False)
        broken = copy.deepcopy(document)
        broken["results"] = []
        assert problems(command, broken, strict=False)
        assert problems(command, {**document, "command": "other"}, strict=False)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("characterize", ("results", "duration_s", "p95")),
        ("pareto", ("results", "knee", "mean_jct_s")),
        ("sweep", ("results", "points", 0, "cost_usd")),
        ("compare", ("results", "policies", 0, "cost_usd")),
        ("simulate", ("results", "cost_usd")),
        ("characterize", ("parameters", "seed")),
    ],
)
def test_a_number_is_a_number(documents, command, path):
    document = copy.deepcopy(next(one for name, _, one in documents if name == command))
    group = document
    for step in path[:-1]:
        group = group[step]
    assert isinstance(group[path[-1]], int | float)
    group[path[-1]] = "many"
    found = problems(command, document, strict=False)
    assert len(found) == 1 and str(path[-1]) in found[0] and "'many' is not of type" in found[0]


def test_a_report_is_what_its_schema_says(gpuplan, tmp_path: Path):
    trace = made.write_trace(tmp_path / "lab.parquet")
    code, _, err = gpuplan(
        *("report", trace, "-o", tmp_path / "r", "--formats", "json", "--study", "simulate"),
        *("--study", "characterize", "--study", "pareto", "--study", "sweep"),
        *("--study", "compare", "--fail-if", "x > 1", "--fail-if", "duration.p50 > 0s"),
        *("--time", "2026-01-31"),
    )
    assert code == 2, err
    document = json.loads((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    for study in document["studies"]:
        own = {key: study[key] for key in study if key not in ("name", "arguments", "headline")}
        assert not problems(study["command"], own, strict=True), GROW
    assert not problems("report", document, strict=False)
    document["studies"][2]["results"]["knee"] = 3
    assert problems("report", document, strict=False)
