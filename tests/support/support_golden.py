"""What every command says of the shipped samples, kept in ``tests/golden/commands``.

    python tests/support/support_golden.py

writes the files anew; the difference shows what a change did to any command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import support_schemas

FOLDER = Path(__file__).parents[1] / "golden" / "commands"
DIGITS = 9
MOST_ROWS = 6


def shortened(value: Any) -> Any:
    """Return nested values with rounded numbers, and long lists by their ends and length."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    if isinstance(value, list):
        if len(value) > MOST_ROWS:
            return [*map(shortened, value[:2]), f"... {len(value)} in all", shortened(value[-1])]
        return [shortened(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value


def golden() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each command with what it says in each of its runs, as the files hold it."""
    found: dict[str, list[dict[str, Any]]] = {}
    folder, rows = support_schemas.outputs()
    for command, arguments, document, text in rows:
        what = {"parameters": document.get("parameters"), "results": document["results"]}
        row = {"arguments": arguments, **shortened(what), "warnings": document["warnings"]}
        places = ((str(folder), "FOLDER"), (str(support_schemas.SAMPLES), "SAMPLES"))
        whole = json.dumps({**row, "text": text.splitlines()}, ensure_ascii=False)
        for path, name in places:
            whole = whole.replace(path, name)
        found.setdefault(command, []).append(json.loads(whole))
    yield from found.items()


def written(rows: list[dict[str, Any]]) -> str:
    """Return the text of a file."""
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for command, said in golden():
        (FOLDER / f"{command}.json").write_text(written(said), encoding="utf-8")
