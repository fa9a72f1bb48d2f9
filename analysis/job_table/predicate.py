"""The predicate of ``--where``: bounded before polars reads it, and kept flat.

Polars takes time that grows faster than the square of the depth of an expression, and cannot be
interrupted meanwhile. A chain ``a AND b AND c`` is as deep as it is long. So long chains are split
here and joined again by one operation over all terms, and what cannot be split is limited.

Nesting is worse: polars copies the argument of BETWEEN, of IN with a column in its list, of CASE x
WHEN and of many functions, so each level multiplies the expression; and its parser tries every NOT
twice. One scan of the tokens estimates depth and copies before polars reads the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
GROUPING = frozenset("AND OR NOT IN BETWEEN CASE WHEN THEN ELSE END LIKE ILIKE IS".split())
"""Words that call no function where a parenthesis follows."""
SEPARATORS = frozenset((",", "OR", "WHEN", "THEN", "ELSE"))
NEGATED = frozenset("IN BETWEEN LIKE ILIKE RLIKE REGEXP SIMILAR".split())
COPYING = re.compile(r"[(\[]|\b(?:NOT|BETWEEN|IN|CASE)\b", re.IGNORECASE)
COPIED = re.compile(r",|\bWHEN\b", re.IGNORECASE)
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


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class _Group:
    """The text between two parentheses, or between CASE and END, as far as it has been scanned.

    Attributes:
        opener: the word before the parenthesis, in capitals; CASE; or empty.
        levels: nested operators since the last separator, without those inside groups.
        inner: nested operators of the deepest group of that part.
        deepest: nested operators of the deepest part before.
        size: columns of that part, copies included.
        total: columns of the parts before.
        parts: separators passed.
        branches: WHENs passed.
        plain: whether there are only values so far.
        betweens: BETWEENs still without their AND.
    """

    opener: str
    levels: int = 0
    inner: int = 0
    deepest: int = 0
    size: int = 0
    total: int = 0
    parts: int = 1
    branches: int = 0
    plain: bool = True
    betweens: int = 0

    def separate(self, word: str) -> None:
        """End a part: operators after the separator do not copy the text before it."""
        if word == "WHEN":
            self.branches += 1
        self.deepest = max(self.deepest, self.levels + self.inner)
        self.total += self.size
        self.parts += 1
        self.levels = self.inner = self.size = self.betweens = 0

    def add(self, group: _Group) -> None:
        """Add a group that has ended."""
        group.separate("")
        depth, size = group.deepest, group.total
        if group.opener == "IN":
            if not group.plain:
                self.size = max(1, self.size) * (group.parts - 1)
        elif group.opener == "CASE":
            depth, size = depth + 1, max(1, size) * (group.branches + 1)
        elif group.opener:
            depth, size = depth + 1, max(1, size) * FUNCTION_COPIES
        self.inner = max(self.inner, depth)
        self.size += size
        self.plain = False


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate as polars evaluates it.

    Attributes:
        whole: the expression.
        terms: the operands of AND, OR and NOT; each must be true or false.
    """

    whole: pl.Expr
    terms: tuple[pl.Expr, ...]


def read_predicate(text: str) -> Predicate:
    """Return a SQL predicate as a polars expression.

    Raises:
        PredicateTooLarge: it has more letters, terms, operators or parentheses than are allowed, or
            too many functions and operators inside each other.
        polars.exceptions.PolarsError: it is not SQL.
    """
    _limit(len(text), MOST_LETTERS, "letters")
    tokens = list(_tokens(text))
    _check_depth(tokens)
    words = [token.text.upper() for token in tokens if token.kind == "word"]
    links = words.count("AND") + words.count("OR")
    _limit(links + 1, MOST_TERMS, "terms joined by AND and OR")
    _limit(_steps(tokens), MOST_STEPS_IN_ALL, "operators, names and parentheses")
    _check_copies(text, tokens)
    terms: list[pl.Expr] = []
    if _only_polars_can_split(tokens):
        _limit(len(WORD_OR_SIGN.findall(text)), MOST_STEPS, "words and signs beside a comment")
        whole = _term(text, tokens, terms)
    elif links < MOST_TERMS_WHOLE:
        whole = _term(text, tokens, terms)
    else:
        whole = _joined(text, tokens, terms)
    return Predicate(whole, tuple(terms))


def _limit(number: int, most: int, what: str, hint: str = SPLIT_HINT) -> None:
    if number > most:
        raise PredicateTooLarge(f"has {_figure(number)} {what}; at most {most:,} are allowed", hint)


def _figure(number: int) -> str:
    return f"{number:,}" if number < 10**12 else "over a trillion"


def _steps(tokens: Sequence[_Token]) -> int:
    """Return the number of tokens, without the values of lists and their signs."""
    return sum(
        token.kind != "value" and not (token.text in "+-" and before in ("(", ","))
        for token, before in zip(tokens, ["", *(token.text for token in tokens)], strict=False)
    )


def _only_polars_can_split(tokens: Sequence[_Token]) -> bool:
    """Return whether it has comments, dollar quotes, or strings with a prefix."""
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


def _check_copies(text: str, tokens: Sequence[_Token]) -> None:
    """Refuse nesting that polars would turn into too large an expression."""
    if _only_polars_can_split(tokens):
        levels, copied = len(COPYING.findall(text)), len(COPIED.findall(text))
        _limit(levels, 2 * MOST_LEVELS, "operators and parentheses beside a comment", NEST_HINT)
        levels, size = 0, (copied + 2) ** levels
    else:
        levels, size = _nesting(tokens)
    what = "functions, CASE, BETWEEN, IN or NOT inside each other"
    _limit(levels, MOST_LEVELS, what, NEST_HINT)
    what = "columns once polars has copied the arguments of functions, BETWEEN, IN and CASE"
    _limit(size, MOST_COPIES, what, NEST_HINT)


def _nesting(tokens: Sequence[_Token]) -> tuple[int, int]:
    """Return the most nested operators, and an upper estimate of the columns with their copies."""
    groups = [_Group("")]
    before = _Token("", "", 0, 0)
    for token, after in zip(tokens, [*tokens[1:], before], strict=False):
        word = token.text.upper() if token.kind in ("word", "value") else ""
        if token.kind == "open" or word == "CASE":
            groups.append(_Group(_opener(before) if token.kind == "open" else "CASE"))
        elif token.kind == "close":
            while len(groups) > 1 and groups[-1].opener == "CASE":
                _close(groups)
            _close(groups)
        elif word == "END" and groups[-1].opener == "CASE":
            _close(groups)
        else:
            _scan(groups[-1], token, word, before, after)
        before = token
    while len(groups) > 1:
        _close(groups)
    groups[0].separate("")
    return groups[0].deepest, groups[0].total


def _opener(before: _Token) -> str:
    """Return the function that a parenthesis opens, IN, or nothing if it only groups."""
    word = before.text.upper()
    if before.kind == "word" and (word == "IN" or word not in GROUPING):
        return word
    return "a quoted name" if before.kind == "name" else ""


def _close(groups: list[_Group]) -> None:
    if len(groups) > 1:
        ended = groups.pop()
        groups[-1].add(ended)


def _scan(group: _Group, token: _Token, word: str, before: _Token, after: _Token) -> None:
    """Add a token that is not a bracket to its group."""
    if word == "AND" and group.betweens:
        group.betweens -= 1
    elif word in SEPARATORS or word == "AND":
        group.separate(word)
    elif word == "BETWEEN":
        group.levels += 1
        group.betweens += 1
        group.size = max(1, group.size) * 2
    elif word == "IN":
        group.levels += 1
    elif word == "NOT":
        negated = after.text.upper() in NEGATED or before.text.upper() == "IS"
        group.levels += not negated
    elif token.kind in ("word", "name") and after.kind != "open":
        group.size += 1
    sign = token.text in "+-" and before.text in ("(", ",")
    if token.kind != "value" and not sign:
        group.plain = False


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
        if not all(parts):  # an operand is missing: polars reports the error
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
