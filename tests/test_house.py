"""The structure of the code: no import cycles of files or folders, and one name per class."""

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("analysis", "cli", "planner", "simkit")

pytestmark = pytest.mark.no_cover  # reads code and runs none


def modules():
    """Return path -> parsed source, by dotted name."""
    found = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            parts = ("gpuplan", *path.relative_to(ROOT).with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = (path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def imports(found):
    """Return the modules that each module imports anywhere, also lazily or for types alone."""
    graph = defaultdict(set)
    for name, (_, tree) in found.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpuplan"):
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    graph[name].add(whole if whole in found else node.module)
    return graph


def cycle_in(graph):
    """Return one cycle, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


@pytest.fixture(scope="module")
def found():
    return modules()


def test_no_two_files_import_each_other_even_through_others(found):
    assert cycle_in(imports(found)) is None


def test_no_two_folders_import_each_other_even_through_others(found):
    folders = defaultdict(set)
    for name, targets in imports(found).items():
        here = found[name][0].parent
        folders[here] |= {found[target][0].parent for target in targets} - {here}
    assert cycle_in(folders) is None


def test_a_cycle_would_be_found():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) is None


def test_a_class_name_occurs_once(found):
    names = Counter(
        node.name
        for _, tree in found.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_no_command_enters_the_command_line_again(found):
    graph = imports(found)  # studies are functions: a command calls them
    commands = [name for name in graph if name.startswith("gpuplan.cli.commands.")]
    assert [name for name in commands if "gpuplan.cli.app.main" in graph[name]] == []
