"""The JSON Schemas of the results, made of their types.

``python -m gpuplan.cli.documents.result_schemas`` writes those of `typed_results` to the folder
``schemas`` of `gpuplan.cli`; a test tells where one is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from enum import EnumMeta
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from gpuplan.analysis.base.option import parameters_type
from gpuplan.analysis.base.plain import shown_names
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.documents.view import titles
from gpuplan.planner.requests.declaration import declaration_of, results_of

FOLDER = Path(str(files("gpuplan.cli"))) / "schemas"
Schema = dict[str, Any]

UNITS = {
    "_usd_per_gpu_h": "dollars per GPU-hour",
    "_usd_per_month": "dollars per month",
    "_usd_per_h": "dollars per hour",
    "_gpu_h": "GPU-hours",
    "_gpus": "GPUs",
    "_usd": "dollars",
    "_share": "a fraction of 1",
    "_s": "seconds",
    "_h": "hours",
}
"""End of a name -> its unit, where its description does not say more."""

JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: ["null", "number"],  # what is undefined or infinite is null
    str: "string",
    Path: "string",
    datetime: "string",
    NoneType: "null",
}
"""Type of a value -> its name in JSON."""

ATTRIBUTE = re.compile(r"    (?P<names>\w+(?:, \w+)*): (?P<text>.*)")


def typed_results() -> dict[str, tuple[type, tuple[type, ...]]]:
    """Return command -> the type of its parameters, and those its results may have."""
    from gpuplan.cli.results.diff import DiffParameters, DiffResults
    from gpuplan.cli.results.listing import ListParameters, ListResults
    from gpuplan.cli.results.run import RunParameters, RunResults
    from gpuplan.planner.sharing.profile_results import ProfileResults
    from gpuplan.planner.sharing.sharing_results import CoscalingResults, PlacementResults
    from gpuplan.planner.studies.characterize import (
        CharacterizeParameters,
        CharacterizeResults,
        WorkloadComparison,
    )
    from gpuplan.planner.studies.forecast_request import ForecastParameters
    from gpuplan.planner.studies.forecast_results import ForecastResults
    from gpuplan.planner.studies.pareto_results import ParetoParameters, ParetoResults
    from gpuplan.planner.studies.profile import ProfileParameters
    from gpuplan.planner.studies.replay_parameters import CompareParameters, SimulateParameters
    from gpuplan.planner.studies.replay_results import CompareResults, SimulateResults
    from gpuplan.planner.studies.share_results import ShareParameters
    from gpuplan.planner.studies.size_results import SizeParameters, SizeResults
    from gpuplan.planner.studies.sweep import SweepParameters
    from gpuplan.planner.sweep.result_types import SweepResults

    older = {
        "size": (SizeParameters, (SizeResults,)),
        "sweep": (SweepParameters, (SweepResults,)),
        "run": (RunParameters, (RunResults,)),
        "list": (ListParameters, (ListResults,)),
        "diff": (DiffParameters, (DiffResults,)),
        "pareto": (ParetoParameters, (ParetoResults,)),
        "simulate": (SimulateParameters, (SimulateResults,)),
        "compare": (CompareParameters, (CompareResults,)),
        "profile": (ProfileParameters, (ProfileResults,)),
        "share": (ShareParameters, (PlacementResults, CoscalingResults)),
        "forecast": (ForecastParameters, (ForecastResults,)),
        "characterize": (CharacterizeParameters, (CharacterizeResults, WorkloadComparison)),
    }
    declared = {name: declaration_of(name) for name in COMMANDS}
    return older | {
        name: (parameters_type(study.request), results_of(study))
        for name, study in declared.items()
        if study is not None
    }


def result_schema(command: str) -> Schema:
    """Return the schema of what a command of `typed_results` writes as JSON."""
    parameters, results = typed_results()[command]
    described = {
        "schema_version": {"const": 1},
        "command": {"const": command},
        "inputs": {"type": "array", "items": type_schema(InputFile)},
        "parameters": type_schema(parameters),
        "results": _any_of([type_schema(one) for one in results]),
        "warnings": {"type": "array", "items": {"type": "string"}},
        "gpuplan_version": {"type": "string"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpuplan:schema:1:{command}",
        "title": f"What gpuplan {command} writes as JSON",
        "type": "object",
        "properties": described,
        "required": sorted(described),
    }


def report_schema() -> Schema:
    """Return the schema of ``report.json``, which has the JSON output of each of its studies."""
    from gpuplan.cli.results.report import ReportedStudy, ReportResults

    results, study = type_schema(ReportResults), type_schema(ReportedStudy)
    study["required"] = sorted([*study["required"], "command"])
    study["anyOf"] = [{"$ref": f"urn:gpuplan:schema:1:{command}"} for command in titles()]
    described = {
        "schema_version": {"const": 1},
        "command": {"const": "report"},
        **results["properties"],
        "studies": {"type": "array", "minItems": 1, "items": study},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:gpuplan:schema:1:report",
        "title": "What gpuplan report and gpuplan run write as report.json",
        "type": "object",
        "properties": described,
        "required": sorted(described),
    }


def type_schema(kind: Any) -> Schema:
    """Return the schema of a type as the renderer writes its values; any number may be null."""
    if is_dataclass(kind):
        return _object_schema(kind)
    outer, parts = get_origin(kind) or kind, get_args(kind)
    if outer is Annotated:  # by a pattern
        return {**type_schema(parts[0]), "pattern": parts[1].pattern}
    if outer in (Union, UnionType):
        return _any_of([type_schema(part) for part in parts if part is not msgspec.UnsetType])
    if outer is Literal or isinstance(kind, EnumMeta):
        return {"type": "string", "enum": sorted(parts or [part.value for part in kind])}
    if outer is tuple and Ellipsis not in parts:
        each = [type_schema(part) for part in parts]
        ends = {"minItems": len(each), "maxItems": len(each)}
        return {"type": "array", "items": False, "prefixItems": each, **ends}
    if outer in (list, tuple, dict, Mapping):
        is_map = outer in (dict, Mapping)
        inner, name = parts[is_map], "additionalProperties" if is_map else "items"
        values = {} if inner is Any else {name: type_schema(inner)}
        return {"type": "object" if is_map else "array", **values}
    if outer is date:
        return {"type": "string", "format": "date"}
    return {} if outer is Any else {"type": JSON_TYPES[outer]}


def _object_schema(kind: Any) -> Schema:
    """Return the schema of a dataclass, without its hidden fields."""
    hints, about = get_type_hints(kind, include_extras=True), _descriptions(kind)
    default = {part.name: part.default for part in fields(kind)}
    properties: Schema = {}
    required: set[str] = set()
    for name, is_inlined in sorted(
        shown_names(kind), key=lambda shown: default[shown[0]] is not MISSING
    ):
        if is_inlined:
            inner = type_schema(get_args(hints[name])[0])
            properties |= inner["properties"]
            required |= {*inner["required"]}
            continue
        properties[name] = _described(name, type_schema(hints[name]), about)
        if default[name] is not msgspec.UNSET:
            required.add(name)
    return {"type": "object", "properties": properties, "required": sorted(required)}


def _any_of(schemas: list[Schema]) -> Schema:
    """Return the schema of a value that may be of several types, in one where that can be."""
    if all(schema == schemas[0] for schema in schemas[1:]):
        return schemas[0]
    merged: Schema = {}
    kinds: set[str] = set()
    for schema in schemas:
        own = schema.get("type", [])
        kinds |= {own} if isinstance(own, str) else set(own)
    for schema in schemas:
        merged |= {key: value for key, value in schema.items() if key != "type"}
    for key in ("items", "additionalProperties"):
        if key in merged:
            merged[key] = _any_of([one[key] for one in schemas if key in one])
    objects = [one for one in schemas if "properties" in one]
    if len(objects) > 1:
        known = dict.fromkeys(name for one in objects for name in one["properties"])
        merged["properties"] = {
            name: _any_of([one["properties"][name] for one in objects if name in one["properties"]])
            for name in known
        }
        merged["required"] = sorted(set.intersection(*(set(one["required"]) for one in objects)))
    if "enum" in merged and "null" in kinds:
        merged["enum"] = [*merged["enum"], None]
    return {"type": sorted(kinds), **merged}


def _described(name: str, schema: Schema, about: dict[str, str]) -> Schema:
    """Return the schema of a field with what its class says of it, or its unit."""
    unit = next((unit for end, unit in UNITS.items() if f"_{name}".endswith(end)), None)
    description = about.get(name, unit)
    if unit is not None and description and unit.casefold() not in description.casefold():
        description = f"{description} ({unit})"
    return schema if description is None else {**schema, "description": description}


def _descriptions(kind: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and its bases say of its fields."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, listed = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        names: list[str] = []
        for line in listed.splitlines():
            if (match := ATTRIBUTE.fullmatch(line)) is not None:
                names = match["names"].split(", ")
                found |= dict.fromkeys(names, match["text"])
            else:  # goes on
                found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return {name: text.replace("`", "").strip().removesuffix(".") for name, text in found.items()}


def written_schema(command: str) -> str:
    """Return the text of a schema file."""
    schema = report_schema() if command == "report" else result_schema(command)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the schemas."""
    for command in ("report", *typed_results()):
        (FOLDER / f"{command}.json").write_text(written_schema(command), encoding="utf-8")


if __name__ == "__main__":
    main()
