"""Tables by ``--map``: CSV and JSON records, expressions over their columns, columns to keep."""

from __future__ import annotations

import json
from random import Random

from fuzz.cases import Case, Draft
from fuzz.kinds.readers import _complete, _mutations, _packings
from fuzz.values import TEXTS

TARGETS = (
    "num_gpus", "num_workers", "duration_s", "queue_s", "priority", "user", "job_class",
    "gpu_type", "state", "submit_time", "end_time", "job_id", "deadline_s", "nope",
)  # fmt: skip
COLUMNS = ("gpus", "pods", "kind", "ran", "created", "ask.gpus", "no such", "user")
ATOMS = (
    *COLUMNS, '"ask.gpus"', '"user"', "1", "0", "-2.5", "1e308", "'x'", "''", "NULL", "*", "?",
    "{}",
)  # fmt: skip
FORMS = (
    "{} * {}", "{} + {}", "{} / {}", "{} - {}", "{} || {}", "({})", "COALESCE({}, {})", "SUM({})",
    "MAX({})", "COUNT(*)", "CAST({} AS INT)", "TRY_CAST({} AS DOUBLE)", "CONCAT({}, {})",
    "CASE WHEN {} = {} THEN {} ELSE {} END", "CASE WHEN {} > 1 THEN {} END", "NOT {}", "{} IN (1)",
    "{} OVER ()", "ROUND({})", "UPPER({})", "LEFT({}, 2)", "SUBSTR({}, 1, 2)", "{} LIKE '%a%'",
    "POWER({}, {})", "{} % {}", "{} AS x", "DATE {}", "{}::int", "{}[0]", "STRPTIME({}, '%Y')",
)  # fmt: skip


def mapped(rng: Random) -> Draft:
    """Draft a run of gpuplan ingest on a damaged table with columns that the user names."""
    rows = [
        {
            "id": i, "created": f"2026-01-0{1 + i % 9}T0{i % 10}:00:00Z", "ran": 60 * i,
            "gpus": rng.choice((1, 2, 0.5, "many", None)), "pods": 1 + i % 3,
            "kind": rng.choice(("h100", "", *TEXTS)), "ask": {"gpus": i % 4, "list": [i]},
        }
        for i in range(rng.choice((0, 1, 3, 40)))
    ]  # fmt: skip
    form = rng.choice(("csv", "json", "jsonl"))
    name = f"t.{form}"
    case = Case("mapped", form, [], {name: _written(form, rows)}, account="jobs")
    case.sources = [name]
    maps = {"submit_time": "created", "duration_s": "ran", "num_gpus": "pods"}
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        maps[rng.choice(TARGETS)] = _expression(rng, rng.choice((0, 1, 1, 2, 4)))
    for target, value in maps.items():
        if "\0" not in value:
            case.arguments += ["--map", f"{target}={value}"]
    for _ in range(rng.choice((0, 0, 1, 2))):
        case.arguments += ["--keep", rng.choice(COLUMNS)]
    if rng.random() < 0.5:
        case.arguments += ["--source-format", "csv"]
    draft = Draft(case, _mutations(rng, [name]) + _packings(rng))

    def finish(case: Case, rng: Random) -> None:
        _complete(case, rng, "ingest")

    draft.finish = finish
    return draft


def _expression(rng: Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(ATOMS)
    form = rng.choice(FORMS)
    return form.format(*(_expression(rng, depth - 1) for _ in range(form.count("{}"))))


def _written(form: str, rows: list[dict[str, object]]) -> bytes:
    if form == "json":
        return json.dumps(rows).encode()
    if form == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    lines = ["id,created,ran,gpus,pods,kind,ask.gpus"]
    for row in rows:
        cells = (row["id"], row["created"], row["ran"], row["gpus"], row["pods"], row["kind"], 1)
        lines.append(",".join("" if cell is None else str(cell) for cell in cells))
    return "\n".join([*lines, ""]).encode("utf-8", "surrogateescape")
