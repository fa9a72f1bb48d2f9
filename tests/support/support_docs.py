"""Which keys of a JSON result a page of docs/ has as words in code type."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = {
    "references": "GPUs",
    "statistics": "paths, which are documented by themselves",
    "prices": "GPUs",
    "types": "GPUs",
    "used_gpus": "GPUs",
    "mean_gpus": "GPUs",
    "peak_gpus": "GPUs",
}
"""Keys whose value has names for keys, and what these are."""


def words_of(page):
    """The words within backticks on a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return {w for code in re.findall(r"`([^`\n]+)`", text) for w in re.findall(r"\w+", code)}


def paths_of(value, path=""):
    """Every path of a JSON value, lists by all of their elements."""
    if isinstance(value, list):
        for entry in value:
            yield from paths_of(entry, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            if key not in NAMES:
                yield from paths_of(inner, f"{path}.{key}")


def undocumented(results, pages):
    """The paths whose key no page has."""
    known = set().union(*map(words_of, pages))
    # The suffix of a path is the key; a list of bare values has no keys of its own.
    return sorted({path for path in paths_of(results) if path.rpartition(".")[2] not in known})
