"""Every command says of the samples what it said before; what changes is changed on purpose."""

import json
import math

import pytest
import support_golden
from support_golden import FOLDER, golden

pytestmark = pytest.mark.timeout(600)  # all commands, on a clean checkout with their kernels


REL = 1e-5
"""What a figure from a numerical search may differ by: processors round sums differently."""


def is_same(value, kept):
    """Whether two nested values are the same, floats but for `REL`."""
    if isinstance(value, float) and isinstance(kept, float):
        return math.isclose(value, kept, rel_tol=REL)
    if isinstance(value, dict) and isinstance(kept, dict):
        return [*value] == [*kept] and all(is_same(value[key], kept[key]) for key in kept)
    if isinstance(value, list) and isinstance(kept, list):
        return len(value) == len(kept) and all(map(is_same, value, kept))
    return bool(value == kept)


@pytest.fixture(scope="module")
def found():
    return dict(golden())


def test_every_command_has_a_file(found):
    assert set(found) == {path.stem for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("command", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_a_command_says_what_it_said(found, command):
    """On purpose? Then run python tests/support/support_golden.py and commit what it writes."""
    kept = json.loads((FOLDER / f"{command}.json").read_text(encoding="utf-8"))
    assert [row["arguments"] for row in found[command]] == [row["arguments"] for row in kept]
    for row, old in zip(found[command], kept, strict=True):
        for part in ("parameters", "results", "warnings", "text"):
            if not is_same(row[part], old[part]):
                assert row[part] == old[part], (command, row["arguments"], part)


def test_what_differs_in_a_figure_or_a_word_is_noticed():
    kept = {"rows": [1, 2.0, "a"], "share": 0.5}
    assert is_same({"rows": [1, 2.0000001, "a"], "share": 0.5}, kept)
    for other in (
        {"rows": [1, 2.0001, "a"], "share": 0.5},
        {"rows": [2, 2.0, "a"], "share": 0.5},
        {"rows": [1, 2.0, "b"], "share": 0.5},
        {"rows": [1, 2.0], "share": 0.5},
        {"share": 0.5, "rows": [1, 2.0, "a"]},
        {"rows": [1, 2.0, "a"]},
    ):
        assert not is_same(other, kept)


def test_long_lists_are_shortened_and_numbers_rounded():
    row = {"rows": list(range(9)), "share": 1 / 3}
    assert support_golden.shortened(row) == {
        "rows": [0, 1, "... 9 in all", 8],
        "share": 0.333333333,
    }
