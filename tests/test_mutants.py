"""The mutations by which tests are tested: each is one valid change in the code it names."""

import ast
from pathlib import Path

import pytest
from support_mutants import mutations

ROOT = Path(__file__).resolve().parents[1]


def changes(source):
    return [(one.line, one.before, one.after) for one in mutations(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = (a) - (b)\n", [(1, "-", "+")]),
        ("x = a * b / c\n", [(1, "*", "/"), (1, "/", "*")]),
        ("x += a // b\n", [(1, "+=", "-="), (1, "//", "*")]),
        ("x = 0 <= a < 9\n", [(1, "0", "1"), (1, "<=", "<"), (1, "<", "<="), (1, "9", "10")]),
        ("x = a and b or not c\n", [(1, "and", "or"), (1, "or", "and"), (1, "not", "")]),
        ("x = True, 1.5\n", [(1, "True", "False"), (1, "1.5", "2.5")]),
        ("def f(a: int = 3) -> 'x':\n    'words'\n    return a\n",
         [(1, "3", "4"), (3, "return a", "return None")]),
        ("x = 'é', (\n    a  # 2 - 1\n    - b\n)\n", [(3, "-", "+")]),
        ("y = 'é' + a  # b\n", [(1, "+", "-")]),
        ("@settings(3)\nclass A:\n    x: int = 2\n", [(3, "2", "3")]),
        ("x = f'{a + 1}', 'a < b', None\ndef f():\n    return\n", []),
    ],
)  # fmt: skip
def test_every_place_that_can_change_and_no_other(source, expected):
    assert changes(source) == expected


@pytest.mark.parametrize("path", ["simkit/cluster/kernel.py", "planner/money/trace_bill.py"])
def test_each_mutation_is_valid_code_that_differs_in_one_place(path):
    source = (ROOT / path).read_text(encoding="utf-8")
    tree, found = ast.dump(ast.parse(source)), mutations(source)
    assert len(found) > 50
    for one in found[::9]:
        changed = one.apply(source)
        assert ast.dump(ast.parse(changed)) != tree
        data, other = source.encode(), changed.encode()
        assert other[: one.start] == data[: one.start]
        assert other[one.start + len(one.after.encode()) :] == data[one.end :]
        assert data[one.start : one.end].decode() == one.before != one.after
