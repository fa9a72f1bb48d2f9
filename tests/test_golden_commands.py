"""Every command says of the samples what it said before; what changes is changed on purpose."""

import json

import pytest
import support_golden
from support_golden import FOLDER, golden

pytestmark = pytest.mark.timeout(600)  # all commands, on a clean checkout with their kernels


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
            assert row[part] == old[part], (command, row["arguments"], part)


def test_long_lists_are_shortened_and_numbers_rounded():
    row = {"rows": list(range(9)), "share": 1 / 3}
    assert support_golden.shortened(row) == {
        "rows": [0, 1, "... 9 in all", 8],
        "share": 0.333333333,
    }
