"""The JSON Schemas of the results, made of their types.

``python -m gpuplan.cli.documents.result_schemas`` writes those of `typed_results` to the folder
``schemas`` of `gpuplan.cli`; a test tells where one is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from enum import EnumMeta
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from gpuplan.analysis.base.plain import shown_names
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.documents.view import titles
from gpuplan.cli.results import (
    DiffParameters,
    DiffResults,
    ListParameters,
    ListResults,
    ReportedStudy,
    ReportResults,
    RunParameters,
    RunResults,
)
from gpuplan.planner.requests.declaration import declaration_of, parameters_of, results_of

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

JSON_TYPES: dict[Any, Schema] = {
    Any: {},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["null", "number"]},  # what is undefined or infinite is null
    str: {"type": "string"},
    Path: {"type": "string"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string"},
    NoneType: {"type": "null"},
}
"""Type of a value -> its schema."""

STRUCTURE = {"$ref", "items", "prefixItems", "additionalProperties"}
"""Keys of schemas that cannot be merged with each other."""

LINE = 100  # characters; a value that fits is on one line

ATTRIBUTE = re.compile(r"    (?P<names>\w+(?:, \w+)*): (?P<text>.*)")


def typed_results() -> dict[str, tuple[type, tuple[type, ...]]]:
    """Return command -> the type of its parameters, and those its results may have."""
    older = {
        "run": (RunParameters, (RunResults,)),
        "list": (ListParameters, (ListResults,)),
        "diff": (DiffParameters, (DiffResults,)),
    }
    declared = {name: declaration_of(name) for name in COMMANDS}
    return older | {
        name: (parameters_of(study), results_of(study))
        for name, study in declared.items()
        if study is not None
    }


def result_schema(command: str) -> Schema:
    """Return the schema of what a command of `typed_results` writes as JSON."""
    parameters, results = typed_results()[command]
    schemas, definitions = type_schemas(InputFile, parameters, *results)
    properties = {
        "schema_version": {"const": 1},
        "command": {"const": command},
        "inputs": {"type": "array", "items": schemas[0]},
        "parameters": schemas[1],
        "results": _any_of(schemas[2:]),
        "warnings": {"type": "array", "items": {"type": "string"}},
        "gpuplan_version": {"type": "string"},
    }
    return _document(command, f"gpuplan {command} writes as JSON", properties, definitions)


def report_schema() -> Schema:
    """Return the schema of ``report.json``, which has the JSON output of each of its studies."""
    _, definitions = type_schemas(ReportResults, ReportedStudy)
    results, study = definitions.pop("ReportResults"), definitions["ReportedStudy"]
    study["required"] = sorted([*study["required"], "command"])
    study["anyOf"] = [{"$ref": f"urn:gpuplan:schema:1:{command}"} for command in titles()]
    properties = {
        "schema_version": {"const": 1},
        "command": {"const": "report"},
        **results["properties"],
        "studies": {"type": "array", "minItems": 1, "items": _reference("ReportedStudy")},
    }
    title = "gpuplan report and gpuplan run write as report.json"
    return _document("report", title, properties, definitions)


def _document(command: str, title: str, properties: Schema, definitions: Schema) -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpuplan:schema:1:{command}",
        "title": f"What {title}",
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "$defs": dict(sorted(definitions.items())),
    }


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def type_schemas(*types: type) -> tuple[list[Schema], dict[str, Schema]]:
    """Return a reference to each dataclass, and name -> schema of these and of those inside."""
    definitions: dict[str, Schema] = {}
    return [_type_schema(kind, definitions) for kind in types], definitions


def _type_schema(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a type as the renderer writes its values; any number may be null.

    The dataclasses and enumerations inside are added to ``definitions``.
    """
    outer, parts = get_origin(kind) or kind, get_args(kind)
    if is_dataclass(kind) or isinstance(kind, EnumMeta):
        name = outer.__name__
        if name not in definitions:
            definitions[name] = {}  # so that a type may contain itself
            definitions[name] = _definition(kind, definitions)
        return _reference(name)
    if outer is Annotated:  # by a pattern, or with the option that sets it
        pattern = getattr(parts[1], "pattern", None)
        return _type_schema(parts[0], definitions) | ({"pattern": pattern} if pattern else {})
    if outer in (Union, UnionType):
        options = [part for part in parts if part is not msgspec.UnsetType]
        return _any_of([_type_schema(part, definitions) for part in options])
    if outer is Literal:
        return {"type": "string", "enum": sorted(parts)}
    if outer is tuple and Ellipsis not in parts:
        items = [_type_schema(part, definitions) for part in parts]
        ends = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "items": False, "prefixItems": items, **ends}
    if outer in (dict, Mapping, list, tuple, Sequence):
        is_map = outer in (dict, Mapping)
        inner, name = parts[is_map], "additionalProperties" if is_map else "items"
        values = {} if inner is Any else {name: _type_schema(inner, definitions)}
        return {"type": "object" if is_map else "array", **values}
    return JSON_TYPES[outer]


def _definition(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of an enumeration, or of a dataclass without its hidden fields."""
    if isinstance(kind, EnumMeta):
        return {"type": "string", "enum": sorted(entry.value for entry in list[Any](kind))}
    hints, about = get_type_hints(kind, include_extras=True), _descriptions(kind)
    default = {part.name: part.default for part in fields(kind)}
    properties: Schema = {}
    required: set[str] = set()
    for name, is_inlined in sorted(
        shown_names(kind), key=lambda shown: default[shown[0]] is not MISSING
    ):
        if is_inlined:
            inner = _definition(get_args(hints[name])[0], definitions)
            properties |= inner["properties"]
            required |= {*inner["required"]}
            continue
        properties[name] = _with_description(name, _type_schema(hints[name], definitions), about)
        if default[name] is not msgspec.UNSET:
            required.add(name)
    return {"type": "object", "properties": properties, "required": sorted(required)}


def _any_of(schemas: list[Schema]) -> Schema:
    """Return the schema of a value that may be of several types, with one ``type`` if possible."""
    simple = [schema for schema in schemas if not schema.keys() & STRUCTURE]
    options = [schema for schema in schemas if schema not in simple]
    if simple and len(options) == 1 and "$ref" not in options[0]:
        simple, options = [*simple, *options], []
    if simple:
        kinds = sorted({kind for schema in simple for kind in _kinds(schema)})
        merged = {key: value for schema in simple for key, value in schema.items()}
        if "enum" in merged and "null" in kinds:
            merged["enum"] = [*merged["enum"], None]
        options.append(merged | {"type": kinds if len(kinds) > 1 else kinds[0]})
    return options[0] if len(options) == 1 else {"anyOf": options}


def _kinds(schema: Schema) -> list[str]:
    return [schema["type"]] if isinstance(schema["type"], str) else schema["type"]


def _with_description(name: str, schema: Schema, about: dict[str, str]) -> Schema:
    """Return the schema of a field with what its class says of it, or its unit."""
    unit = next((unit for end, unit in UNITS.items() if f"_{name}".endswith(end)), None)
    description = about.get(name, unit)
    if unit is not None and description and unit.casefold() not in description.casefold():
        description = f"{description} ({unit})"
    return schema if description is None else {**schema, "description": description}


def _descriptions(kind: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and its bases say of its fields."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, listed = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        names: list[str] = []
        for line in listed.splitlines():
            if (match := ATTRIBUTE.fullmatch(line)) is not None:
                names = match["names"].split(", ")
                texts |= dict.fromkeys(names, match["text"])
            else:  # goes on
                texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
    return {name: text.replace("`", "").strip().removesuffix(".") for name, text in texts.items()}


def written_schema(command: str) -> str:
    """Return the text of a schema file."""
    schema = report_schema() if command == "report" else result_schema(command)
    return _folded(schema, " ") + "\n"


def _folded(value: Any, indent: str) -> str:
    """Return JSON with a line for each part of what is too long for one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= LINE:
        return line
    if isinstance(value, dict):
        parts = [f'"{key}": {_folded(part, indent + " ")}' for key, part in value.items()]
    else:
        parts = [_folded(part, indent + " ") for part in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return f"{opened}\n{indent}" + f",\n{indent}".join(parts) + f"\n{indent[1:]}{closed}"


def main() -> None:
    """Write the schemas."""
    for command in ("report", *typed_results()):
        (FOLDER / f"{command}.json").write_text(written_schema(command), encoding="utf-8")


if __name__ == "__main__":
    main()
