"""The structure of the code: no import cycles, one name per class, and counts that only fall.

A count that has fallen is lowered here, so that it stays low.
"""

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("analysis", "cli", "planner", "simkit")

MOST_LINES = 400  # of a file; these have more
LONG_FILES = {
    "analysis/prices/ingest.py": "one subject: from price lists to a price table",
    "simkit/allpass/kernel.py": "one kernel, compiled as one function and its parts",
}
HEAVY = set("cvxpy jinja2 matplotlib msgspec numba numpy polars pyarrow rich scipy".split())
MOST_LAZY = 149  # imports in functions
MOST_LAZY_FOR_NOTHING = 8  # those of gpuplan that keep none of `HEAVY` out
SAYS_NOTHING = set(
    "one found known own given asked mine there told taken sure like beside together".split()
)
MOST_SAYING_NOTHING = 3  # functions with a parameter or a local of such a name
COINED = {"_Given", "_Sureness", "_beside", "_like", "_sure", "_together", "_told"}
MOST_PARAMETERS = 8
MOST_WITH_MORE = 29  # functions
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

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


WALKED = {}


def walk(node, into):
    """Add a node and all below it to a list, and note where those of a function are in it."""
    start = len(into)
    into.append(node)
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for child in value:
                if isinstance(child, ast.AST):
                    walk(child, into)
        elif isinstance(value, ast.AST) and name not in ("ctx", "op"):  # these have no place
            walk(value, into)
    if isinstance(node, FUNCTIONS):
        WALKED[node] = (into, start, len(into))


def nodes_of(tree):
    """Return a node and all below it: one walk finds those of a file and of its functions."""
    if tree not in WALKED:
        nodes = []
        walk(tree, nodes)
        WALKED[tree] = (nodes, 0, len(nodes))
    nodes, start, end = WALKED[tree]
    return nodes[start:end]


def imports(found):
    """Return the modules that each module imports anywhere, also lazily or for types alone."""
    graph = defaultdict(set)
    for name, (_, tree) in found.items():
        for node in nodes_of(tree):
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
    yield modules()
    WALKED.clear()


@pytest.fixture(scope="module")
def graph(found):
    return imports(found)


def test_no_two_files_import_each_other_even_through_others(graph):
    assert cycle_in(graph) is None


def test_no_two_folders_import_each_other_even_through_others(found, graph):
    folders = defaultdict(set)
    for name, targets in graph.items():
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
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_no_command_enters_the_command_line_again(graph):
    # studies are functions: a command calls them
    commands = [name for name in graph if name.startswith("gpuplan.cli.commands.")]
    assert [name for name in commands if "gpuplan.cli.app.main" in graph[name]] == []


def functions(tree):
    return [node for node in nodes_of(tree) if isinstance(node, FUNCTIONS)]


def is_import(node):
    return isinstance(node, ast.Import | ast.ImportFrom)


def lazy_imports(tree):
    """Return the imports in functions, each once."""
    lazy = {id(node): node for f in functions(tree) for node in nodes_of(f) if is_import(node)}
    return list(lazy.values())


def imported(node, found):
    """Return the modules that an import loads."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    wholes = {f"{node.module}.{alias.name}" for alias in node.names}
    return (wholes & found.keys()) or {node.module}


def loaded_at_once(body):
    """Yield the imports that run when a module is imported."""
    for node in body:
        is_for_types = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        if is_import(node):
            yield node
        elif not is_for_types and not isinstance(node, ast.FunctionDef):
            yield from loaded_at_once(ast.iter_child_nodes(node))


def heavy_packages(found):
    """Return what tells the heavy packages that come with some modules."""
    direct = {
        name: set().union(*(imported(node, found) for node in loaded_at_once(tree.body)))
        for name, (_, tree) in found.items()
    }

    def heavy(names):
        seen, left = set(), set(names)
        while left:
            seen |= left
            left = set().union(*(direct.get(name, ()) for name in left)) - seen
        return {name.partition(".")[0] for name in seen} & HEAVY

    return heavy


def local_names(function):
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    stored = {
        node.id
        for node in nodes_of(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return stored | {argument.arg for argument in arguments}


def test_few_files_are_long(found):
    lines = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path, _ in found.values()
    }
    assert {name for name, count in lines.items() if count > MOST_LINES} == set(LONG_FILES)


def test_lazy_imports_do_not_grow(found):
    heavy = heavy_packages(found)
    lazy = [(name, node) for name, (_, tree) in found.items() for node in lazy_imports(tree)]
    assert len(lazy) <= MOST_LAZY
    for_nothing = [
        f"{name}:{node.lineno}"
        for name, node in lazy
        if imported(node, found) <= found.keys()
        if heavy(imported(node, found)) <= heavy({name})
    ]
    assert len(for_nothing) <= MOST_LAZY_FOR_NOTHING, for_nothing


def test_a_lazy_import_for_nothing_would_be_counted():
    found = {
        "gpuplan.a": (None, ast.parse("def f():\n    from gpuplan import b, c\n    import c2")),
        "gpuplan.b": (None, ast.parse("try:\n    import polars\nexcept ImportError:\n    pass")),
        "gpuplan.c": (None, ast.parse("def f():\n    import numba")),
    }
    lazy = lazy_imports(found["gpuplan.a"][1])
    heavy = heavy_packages(found)
    assert [heavy(imported(node, found)) for node in lazy] == [{"polars"}, set()]


def test_local_names_say_more_and_more(found):
    saying = [
        f"{name}.{function.name}"
        for name, (_, tree) in found.items()
        for function in functions(tree)
        if local_names(function) & SAYS_NOTHING
    ]
    assert len(saying) <= MOST_SAYING_NOTHING


def test_no_name_is_coined_again(found):
    coined = {
        (name, node.name)
        for name, (_, tree) in found.items()
        for node in nodes_of(tree)
        if getattr(node, "name", None) in COINED
    }
    assert coined == set()


def test_few_functions_have_many_parameters(found):
    many = [
        f"{name}.{function.name}"
        for name, (_, tree) in found.items()
        for function in functions(tree)
        if len(function.args.args) + len(function.args.kwonlyargs) > MOST_PARAMETERS
    ]
    assert len(many) <= MOST_WITH_MORE, many
