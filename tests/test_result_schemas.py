"""JSON Schemas made of the types of the results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType
from support_schemas import FOLDER

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.documents.result_schemas import (
    _any_of,
    type_schemas,
    typed_results,
    written_schema,
)


@dataclass(frozen=True)
class Part:
    """A part.

    Attributes:
        wait_s: time in the queue,
            until the start.
        first, last: instants.
    """

    wait_s: float
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True)
class Whole:
    """The whole.

    Attributes:
        parts: its ``parts``.
    """

    parts: tuple[Part, ...]
    by_name: dict[str, int]
    output: Path
    ci: Part | UnsetType = UNSET


def test_results_become_plain_values() -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    whole = Whole((Part(2.5, first=at),), {"a": 1}, Path("a/b.parquet"))
    assert plain(whole) == {
        "parts": [{"wait_s": 2.5, "first": "2026-01-31T00:00:00+00:00", "last": None}],
        "by_name": {"a": 1},
        "output": "a/b.parquet",
    }


def test_the_schema_of_a_type_worked_by_hand() -> None:
    @dataclass(frozen=True)
    class Result:
        """A result.

        Attributes:
            parts: its ``parts``.
        """

        parts: tuple[Part, ...]
        counts: dict[str, int]
        ci: float | UnsetType | None = UNSET

    instant = {"type": ["null", "string"], "description": "instants"}
    references, definitions = type_schemas(Result)
    assert references == [{"$ref": "#/$defs/Result"}]
    assert definitions == {
        "Part": {
            "type": "object",
            "properties": {
                "wait_s": {
                    "type": ["null", "number"],
                    "description": "time in the queue, until the start (seconds)",
                },
                "first": instant,
                "last": instant,
            },
            "required": ["first", "last", "wait_s"],
        },
        "Result": {
            "type": "object",
            "properties": {
                "parts": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/Part"},
                    "description": "its parts",
                },
                "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                "ci": {"type": ["null", "number"]},
            },
            "required": ["counts", "parts"],
        },
    }


def test_scalars_are_merged_and_objects_are_options() -> None:
    number, part = {"type": ["null", "number"]}, {"$ref": "#/$defs/Part"}
    assert _any_of([{"type": "string"}, number]) == {"type": ["null", "number", "string"]}
    assert _any_of([part, {"type": "null"}]) == {"anyOf": [part, {"type": "null"}]}
    assert _any_of([{"type": "string", "enum": ["a"]}, {"type": "null"}]) == {
        "type": ["null", "string"],
        "enum": ["a", None],
    }


def test_a_list_or_a_number_is_one_type_and_two_kinds_of_lists_are_options() -> None:
    number = {"type": ["null", "number"]}
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    rows = {"type": "array", "items": number}
    assert _any_of([number, counts]) == {
        "type": ["null", "number", "object"],
        "additionalProperties": {"type": "integer"},
    }
    assert _any_of([rows, counts]) == {"anyOf": [rows, counts]}


@pytest.mark.parametrize("command", sorted(["report", *typed_results()]))
def test_a_schema_is_that_of_its_types(command: str) -> None:
    written = (FOLDER / f"{command}.json").read_text(encoding="utf-8")
    assert written == written_schema(command), "run python -m gpuplan.cli.documents.result_schemas"
