"""The fields that a command declares in the schema of its JSON, whether a log has them or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.formats.units import UNIT_SUFFIX

Schema = dict[str, Any]


def declared_path(command: str, name: str) -> str | None:
    """Return the path of a field in the results of a command; None where it declares none.

    Args:
        command: its name; of one without a schema every field is taken as declared.
        name: the path, with or without units.
    """
    if command not in COMMANDS:
        return name
    schema = _schema(command)
    nodes, path = [schema["properties"]["results"]], list[str]()
    for part in name.split("."):
        within: dict[str, list[Schema]] = {}
        for node in _alternatives(nodes, schema["$defs"]):
            for key, value in node.get("properties", {}).items():
                if UNIT_SUFFIX.sub("", key) == UNIT_SUFFIX.sub("", part):
                    within.setdefault(key, []).append(value)
            if isinstance(rest := node.get("additionalProperties"), dict):  # keys of any name
                within.setdefault(part, []).append(rest)
        if not within:
            return None
        path.append(part if part in within else next(iter(within)))
        nodes = within[path[-1]]
    return ".".join(path)


@cache
def _schema(command: str) -> Schema:
    text = files("gpuplan.cli").joinpath("schemas", f"{command}.json").read_text("utf-8")
    schema: Schema = json.loads(text)
    return schema


def _alternatives(nodes: Iterable[Schema], named: Schema) -> Iterator[Schema]:
    """Yield what values may be: each of several types, and the rows of lists."""
    for node in nodes:
        inner = [*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())]
        if "$ref" in node:
            inner.append(named[node["$ref"].rpartition("/")[2]])
        yield node
        yield from _alternatives(inner, named)
