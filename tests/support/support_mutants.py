"""Small changes of Python source that tests should notice, one at a time."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
}
COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
BOOLEANS = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one file.

    Attributes:
        line: line of the change, from 1.
        start, end: what is replaced, bytes from the start of the source.
        before, after: the text there and its replacement.
    """

    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        """Return the changed source."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def mutations(source: str) -> list[Mutation]:
    """Return every change that can be made to a module, in the order of the source.

    Docstrings, annotations, decorators and f-strings are left alone.
    """
    found = _Finder(source)
    found.visit(ast.parse(source))
    return sorted(found.found, key=lambda one: (one.start, one.end))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        lines = source.encode().splitlines(keepends=True)
        self.data = b"".join(lines)
        self.line_at = [0]
        for line in lines:
            self.line_at.append(self.line_at[-1] + len(line))
        self.tokens = list(_tokens(source, self.line_at))
        self.found: list[Mutation] = []

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.between(node.left, node.right, OPERATORS.get(type(node.op)))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        pair = OPERATORS.get(type(node.op))
        self.between(node.target, node.value, pair and (f"{pair[0]}=", f"{pair[1]}="))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            self.between(left, right, COMPARISONS.get(type(op)))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, BOOLEANS[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self.span(node)[0]
            self.replace(node.lineno, start, start + len("not"), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node.lineno, *self.span(node), str(not node.value))
        elif isinstance(node.value, int | float):
            self.replace(node.lineno, *self.span(node), repr(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.replace(node.lineno, *self.span(node), "return None")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave f-strings alone: before Python 3.12 their parts have no exact place."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends, in bytes."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.line_at[node.lineno - 1] + node.col_offset
        return start, self.line_at[node.end_lineno - 1] + node.end_col_offset

    def between(self, left: ast.expr, right: ast.expr, pair: tuple[str, str] | None) -> None:
        """Note the change of the operator between two nodes; parentheses may be there too."""
        if pair is None:
            return
        begin, end = self.span(left)[1], self.span(right)[0]
        for line, start, word in self.tokens:
            if begin <= start < end and word == pair[0]:
                self.replace(line, start, start + len(word), pair[1])
                return

    def replace(self, line: int, start: int, end: int, after: str) -> None:
        self.found.append(Mutation(line, start, end, self.data[start:end].decode(), after))


def _tokens(source: str, line_at: list[int]) -> Iterator[tuple[int, int, str]]:
    """Yield line, place in bytes and text of every operator and name."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.OP, tokenize.NAME):
            line, column = token.start
            yield line, line_at[line - 1] + len(lines[line - 1][:column].encode()), token.string
