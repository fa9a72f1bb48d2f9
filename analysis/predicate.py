"""The predicate of ``--where``: bounded before polars reads it, and kept flat.

Polars takes time that grows faster than the square of the depth of an expression, and cannot be
interrupted meanwhile. A chain ``a AND b AND c`` is as deep as it is long. So long chains are split
here and joined again by one operation over all terms, and what cannot be split is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from gpuplan.analysis.errors import UsageError

MOST_LETTERS = 1 << 20
MOST_DEPTH = 40
MOST_TERMS = 2_000
MOST_STEPS = 150
"""Operators, names and parentheses of one term; the values of a list do not count."""
MOST_STEPS_IN_ALL = 10_000
MOST_TERMS_WHOLE = 16
"""Up to here polars may read a chain as it stands."""
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
WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")


class PredicateTooLarge(UsageError):
    """A predicate is longer or deeper than can be evaluated in bounded time."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate as polars evaluates it.

    Attributes:
        whole: the expression.
        terms: what it joins by AND, OR and NOT; each must be true or false.
    """

    whole: pl.Expr
    terms: tuple[pl.Expr, ...]


def read_predicate(text: str) -> Predicate:
    """Return a SQL predicate as a polars expression.

    Raises:
        PredicateTooLarge: it has more letters, terms, operators or parentheses than are allowed.
        polars.exceptions.PolarsError: it is not SQL.
    """
    _limit(len(text), MOST_LETTERS, "letters")
    tokens = list(_tokens(text))
    _check_depth(tokens)
    words = [token.text.upper() for token in tokens if token.kind == "word"]
    links = words.count("AND") + words.count("OR")
    _limit(links + 1, MOST_TERMS, "terms joined by AND and OR")
    _limit(_steps(tokens), MOST_STEPS_IN_ALL, "operators, names and parentheses")
    terms: list[pl.Expr] = []
    if _only_polars_can_split(tokens):
        _limit(len(WORD_OR_SIGN.findall(text)), MOST_STEPS, "words and signs beside a comment")
        whole = _term(text, tokens, terms)
    elif links < MOST_TERMS_WHOLE:
        whole = _term(text, tokens, terms)
    else:
        whole = _joined(text, tokens, terms)
    return Predicate(whole, tuple(terms))


def _limit(number: int, most: int, what: str) -> None:
    if number > most:
        raise PredicateTooLarge(f"has {number:,} {what}; at most {most:,} are allowed")


def _steps(tokens: Sequence[_Token]) -> int:
    """Return the number of tokens, without the values of lists and their signs."""
    return sum(
        token.kind != "value" and not (token.text in "+-" and before in ("(", ","))
        for token, before in zip(tokens, ["", *(token.text for token in tokens)], strict=False)
    )


def _only_polars_can_split(tokens: Sequence[_Token]) -> bool:
    """Return whether there are comments, dollar quotes, or strings with a prefix."""
    return any(token.kind == "odd" for token in tokens) or any(
        word.kind == "word" and word.end == value.start and value.text.startswith("'")
        for word, value in pairwise(tokens)
    )


def _tokens(text: str) -> Iterator[_Token]:
    for match in TOKEN.finditer(text):
        if match.lastgroup != "blank":
            yield _Token(match.lastgroup or "", match[0], match.start(), match.end())


def _check_depth(tokens: Sequence[_Token]) -> None:
    depth = 0
    for token in tokens:
        depth += _step(token)
        _limit(depth, MOST_DEPTH, "nested parentheses")


def _step(token: _Token) -> int:
    """Return how much deeper the text is after a token; CASE and END count as parentheses."""
    if token.kind == "open" or (token.kind == "word" and token.text.upper() == "CASE"):
        return 1
    if token.kind == "close" or (token.kind == "word" and token.text.upper() == "END"):
        return -1
    return 0


def _joined(text: str, tokens: Sequence[_Token], terms: list[pl.Expr]) -> pl.Expr:
    """Return the expression of tokens, its chains of OR and AND flat; add its terms."""
    for word, join in (("OR", pl.any_horizontal), ("AND", pl.all_horizontal)):
        parts = _split(tokens, word)
        if not all(parts):  # nothing beside an AND: polars says what is wrong
            return _term(text, tokens, terms)
        if len(parts) > 1:
            return join([_joined(text, part, terms) for part in parts])
    first, rest = tokens[0], tokens[1:]
    if _is_not(first) and rest and not _is_not(rest[0]):
        return ~_joined(text, rest, terms)
    if first.text == "(" and len(tokens) > 2 and _closing(tokens) == len(tokens) - 1:
        return _joined(text, tokens[1:-1], terms)
    return _term(text, tokens, terms)


def _is_not(token: _Token) -> bool:
    return token.kind == "word" and token.text.upper() == "NOT"


def _split(tokens: Sequence[_Token], word: str) -> list[Sequence[_Token]]:
    """Return the terms between a word outside parentheses; the AND of BETWEEN joins none."""
    parts, begin, depth, between = [], 0, 0, 0
    for position, token in enumerate(tokens):
        depth += _step(token)
        if depth or token.kind != "word":
            continue
        found = token.text.upper()
        if found == "BETWEEN":
            between += 1
        elif found == "AND" and between:
            between -= 1
        elif found == word:
            parts.append(tokens[begin:position])
            begin = position + 1
    return [*parts, tokens[begin:]]


def _closing(tokens: Sequence[_Token]) -> int | None:
    """Return where the parenthesis that opens first is closed."""
    depth = 0
    for position, token in enumerate(tokens):
        depth += _step(token)
        if depth == 0:
            return position
    return None


def _term(text: str, tokens: Sequence[_Token], terms: list[pl.Expr]) -> pl.Expr:
    """Return the expression of a term as polars reads it; add it to the terms."""
    _limit(_steps(tokens), MOST_STEPS, "operators, names and parentheses in one term")
    terms.append(pl.sql_expr(text[tokens[0].start : tokens[-1].end] if tokens else ""))
    return terms[-1]
