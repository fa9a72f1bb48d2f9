"""The predicate of ``--where``: bounded in length and nesting before polars reads it.

Polars takes time that grows with the square of the depth of an expression, and cannot be
interrupted meanwhile. A chain ``a AND b AND c`` is as deep as it is long. So long chains are split
here and joined again by one operation over all terms, and what cannot be split is limited.

Nesting is worse: polars copies the argument of BETWEEN, of IN with a column in its list, of CASE x
WHEN and of many functions, so each level multiplies the expression; and its parser tries every NOT
twice. One walk over the tokens estimates depth and copies before polars reads the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import polars as pl

from gpuplan.analysis.base.errors import UsageError

MOST_LETTERS = 1 << 20
MOST_DEPTH = 40
MOST_LEVELS = 8
"""Nested functions, CASE, BETWEEN, IN and NOT; parentheses that only group do not count."""
MOST_COPIES = 10_000
"""Columns of the expression that polars builds, where each copy of a column counts."""
MOST_TERMS = 2_000
MOST_STEPS = 150
"""Operators, names and parentheses of one term; the values of a list do not count."""
MOST_STEPS_IN_ALL = 10_000
MOST_TERMS_WHOLE = 16
"""Polars reads a chain of up to this many terms unchanged."""
MOST_BESIDE_COMMENTS = 4
"""Operators and parentheses beside comments, dollar quotes and strings with a prefix (``e'..'``),
whose end only polars knows."""
TOKEN = re.compile(
    r"""
    (?P<blank>\s+)
    | (?P<value>'(?:[^']|'')*' | [0-9][\w.]* | ,)
    | (?P<name>"(?:[^"]|"")*" | `[^`]*`)
    | (?P<word>[^\W\d]\w*)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<odd>--|/\*|\$)
    | (?P<sign>::|<>|[<>!=|]=|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
FUNCTION_COPIES = 3
"""The most copies of an argument that any function of polars makes (LEFT)."""
GROUPING = frozenset("AND OR NOT BETWEEN CASE WHEN THEN ELSE END LIKE ILIKE IS".split())
"""Words that call no function where a parenthesis follows."""
SEPARATORS = frozenset((",", "AND", "OR", "WHEN", "THEN", "ELSE"))
NEGATED = frozenset("IN BETWEEN LIKE ILIKE RLIKE REGEXP SIMILAR".split())
COPYING = re.compile(r"[(\[]|\b(?:NOT|BETWEEN|IN|CASE)\b", re.IGNORECASE)
SPLIT_HINT = "compare one column with many values by IN, as in num_gpus IN (1, 2, 4)"
NEST_HINT = (
    "use fewer functions, CASE, BETWEEN, IN and NOT inside each other, or join conditions by AND"
)
WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")


class PredicateTooLarge(UsageError):
    """A predicate is longer or deeper than can be evaluated in bounded time.

    Attributes:
        hint: what to write instead.
    """

    def __init__(self, problem: str, hint: str = SPLIT_HINT) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(slots=True)
class _Item:
    """A token; or, of the kind ``open``, all from a parenthesis or CASE to its end.

    Attributes:
        kind: group of `TOKEN`.
        text: the token, words in capitals; the first one of several.
        start, end: where it stands.
        items: what stands between a parenthesis, or CASE, and its end.
    """

    kind: str
    text: str
    start: int
    end: int
    items: list[_Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate as polars evaluates it.

    Attributes:
        expression: the expression.
        terms: the operands of AND, OR and NOT; each must be true or false.
    """

    expression: pl.Expr
    terms: tuple[pl.Expr, ...]


def read_predicate(text: str) -> Predicate:
    """Return a SQL predicate as a polars expression.

    Raises:
        PredicateTooLarge: it has more letters, terms, operators or parentheses than are allowed, or
            too many functions and operators inside each other.
        polars.exceptions.PolarsError: it is not SQL.
    """
    _limit(len(text), MOST_LETTERS, "letters")
    tokens = _tokens(text)
    items = _grouped(tokens, len(text))
    links = sum(token.text in ("AND", "OR") for token in tokens)
    _limit(links + 1, MOST_TERMS, "terms joined by AND and OR")
    _limit(_steps(items), MOST_STEPS_IN_ALL, "operators, names and parentheses")
    is_whole = links < MOST_TERMS_WHOLE
    if _only_polars_can_split(tokens):
        is_whole = True
        operators = len(COPYING.findall(text))
        what = "operators and parentheses beside a comment"
        _limit(operators, MOST_BESIDE_COMMENTS, what, NEST_HINT)
        _limit(len(WORD_OR_SIGN.findall(text)), MOST_STEPS, "words and signs beside a comment")
    levels, columns = _extent(items)
    what = "functions, CASE, BETWEEN, IN or NOT inside each other"
    _limit(levels, MOST_LEVELS, what, NEST_HINT)
    what = "columns once polars has copied the arguments of functions, BETWEEN, IN and CASE"
    _limit(columns, MOST_COPIES, what, NEST_HINT)
    terms: list[pl.Expr] = []
    expression = _term(text, items, terms) if is_whole else _joined(text, items, terms)
    return Predicate(expression, tuple(terms))


def _limit(number: int, most: int, what: str, hint: str = SPLIT_HINT) -> None:
    if number > most:
        figure = f"{number:,}" if number < 10**12 else "over a trillion"
        raise PredicateTooLarge(f"has {figure} {what}; at most {most:,} are allowed", hint)


def _tokens(text: str) -> list[_Item]:
    tokens = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or ""
        word = match[0].upper() if kind == "word" else match[0]
        if kind != "blank":
            tokens.append(
                _Item("open" if word == "CASE" else kind, word, match.start(), match.end())
            )
    return tokens


def _only_polars_can_split(tokens: Sequence[_Item]) -> bool:
    """Return whether it has comments, dollar quotes, or strings with a prefix."""
    return any(token.kind == "odd" for token in tokens) or any(
        word.kind == "word" and word.end == value.start and value.text.startswith("'")
        for word, value in pairwise(tokens)
    )


def _grouped(tokens: Sequence[_Item], length: int) -> list[_Item]:
    """Return the tokens outside parentheses and CASE, which get those inside them."""
    opened = [_Item("", "", 0, length)]
    for token in tokens:
        if token.kind == "close":
            while opened[-1].text == "CASE":
                opened.pop().end = token.start
        is_end = token.text == "END" if opened[-1].text == "CASE" else token.kind == "close"
        if is_end and len(opened) > 1:
            opened.pop().end = token.end
            continue
        opened[-1].items.append(token)
        if token.kind == "open":
            token.end = length  # unless it is closed
            opened.append(token)
            _limit(len(opened) - 1, MOST_DEPTH, "nested parentheses")
    return opened[0].items


def _steps(items: Sequence[_Item]) -> int:
    """Return the number of tokens, without the values of lists and their signs."""
    steps, before = 0, ","
    for item in items:
        if item.kind == "open":
            steps += 2 + _steps(item.items)
        else:
            steps += item.kind != "value" and not (item.text in "+-" and before == ",")
        before = item.text
    return steps


def _extent(items: Sequence[_Item]) -> tuple[int, int]:
    """Return the most nested operators, and an upper estimate of the columns with their copies.

    Operators after a separator do not copy the text before it.
    """
    deepest = total = levels = inner = columns = betweens = 0
    blank = _Item("", "", 0, 0)
    for before, item, after in zip([blank, *items], items, [*items[1:], blank], strict=False):
        if item.kind == "open":
            depth, size = _extent(item.items)
            if before.text == "IN":
                if _steps(item.items):
                    columns = max(1, columns) * (1 + _count(item.items, ","))
            elif item.text == "CASE":
                depth, size = depth + 1, max(1, size) * (1 + _count(item.items, "WHEN"))
            elif before.kind == "name" or (before.kind == "word" and before.text not in GROUPING):
                depth, size = depth + 1, max(1, size) * FUNCTION_COPIES
            inner = max(inner, depth)
            columns += size
        elif item.text == "AND" and betweens:
            betweens -= 1
        elif item.text in SEPARATORS:
            deepest, total = max(deepest, levels + inner), total + columns
            levels = inner = columns = betweens = 0
        elif item.text == "BETWEEN":
            levels, betweens, columns = levels + 1, betweens + 1, max(1, columns) * 2
        elif item.text == "IN":
            levels += 1
        elif item.text == "NOT":
            levels += not (after.text in NEGATED or before.text == "IS")
        elif item.kind in ("word", "name") and (after.kind != "open" or after.text == "CASE"):
            columns += 1
    return max(deepest, levels + inner), total + columns


def _count(items: Sequence[_Item], text: str) -> int:
    return sum(item.text == text for item in items)


def _joined(text: str, items: Sequence[_Item], terms: list[pl.Expr]) -> pl.Expr:
    """Return the expression of items, its chains of OR and AND flat; add its terms."""
    for word, join in (("OR", pl.any_horizontal), ("AND", pl.all_horizontal)):
        parts = _split(items, word)
        if not all(parts):  # an operand is missing: polars reports the error
            return _term(text, items, terms)
        if len(parts) > 1:
            return join([_joined(text, part, terms) for part in parts])
    first, rest = items[0], items[1:]
    if first.text == "NOT" and rest and rest[0].text != "NOT":
        return ~_joined(text, rest, terms)
    if first.text == "(" and not rest and first.items and text[first.end - 1] == ")":
        return _joined(text, first.items, terms)
    return _term(text, items, terms)


def _split(items: Sequence[_Item], word: str) -> list[Sequence[_Item]]:
    """Return the items between a word; the AND of BETWEEN does not split."""
    parts, begin, betweens = [], 0, 0
    for position, item in enumerate(items):
        if item.text == "BETWEEN":
            betweens += 1
        elif item.text == "AND" and betweens:
            betweens -= 1
        elif item.text == word:
            parts.append(items[begin:position])
            begin = position + 1
    return [*parts, items[begin:]]


def _term(text: str, items: Sequence[_Item], terms: list[pl.Expr]) -> pl.Expr:
    """Return the expression of a term as polars reads it; add it to the terms."""
    _limit(_steps(items), MOST_STEPS, "operators, names and parentheses in one term")
    terms.append(pl.sql_expr(text[items[0].start : items[-1].end] if items else ""))
    return terms[-1]
