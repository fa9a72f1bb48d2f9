"""Read the SQL conditions of ``--where`` and ``--spot``, and say what is wrong with them."""

from __future__ import annotations

import re

import polars as pl

from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.job_table.predicate import PredicateTooLarge, read_predicate
from gpuplan.analysis.job_table.schema import CANONICAL

QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
UNKNOWN_COLUMN = re.compile(r'unable to find column "([^"]+)"')
SQL_WORDS = re.compile(r"\b(?:user|group|cluster)\b", re.IGNORECASE)


def read_condition(where: str, scan: pl.LazyFrame, option: str = "--where") -> pl.Expr:
    """Return a checked polars expression for the text of an option."""
    try:
        predicate = read_predicate(where)
        terms = [term.alias(str(number)) for number, term in enumerate(predicate.terms)]
        kinds = scan.head(0).select(terms).collect().dtypes
    except pl.exceptions.PolarsError as error:
        raise bad_condition(where, error, option) from error
    except PredicateTooLarge as error:
        raise UsageError(f"{option} {shortened(where)!r}: {error}\n  next: {error.hint}") from error
    for kind in kinds:
        if kind != pl.Boolean():
            raise bad_condition(where, f"gives {kind}, not true or false", option)
    schema = scan.collect_schema()
    two_jobs = pl.DataFrame({name: [None, None] for name in schema}, schema)
    has_columns = bool(predicate.expression.meta.root_names())
    if has_columns and two_jobs.select(predicate.expression).height == 1:
        # One truth for all, as of a sum, would keep every job or none.
        raise bad_condition(where, "is of all jobs together, not of each", option)
    return predicate.expression


def bad_condition(where: str, problem: object, option: str = "--where") -> UsageError:
    """Return the error for a condition with what is wrong, in our words where they are known."""
    reason, bare = str(problem).strip().partition("\n")[0], QUOTED.sub("", where)
    if (word := SQL_WORDS.search(bare)) is not None:
        column = word[0].lower() if word[0].lower() in CANONICAL else word[0]
        reason = f'{word[0]} is a word of SQL; as a column it is "{column}"'
    elif (named := UNKNOWN_COLUMN.search(reason)) is not None:
        reason = f"no column {named[1]!r}{perhaps(named[1], CANONICAL)}"
        if text := re.search(rf"(\w+\s*[=!<>]=?>?\s*){re.escape(named[1])}(?!\w)", bare):
            reason += f"; text has quotes: {text[1]}'{named[1]}'"
    elif reason.endswith(" as Expr"):
        reason = "is not a complete SQL condition"
    elif "submit_time" in bare and ("compar" in reason or "datetime" in reason):
        reason = "submit_time has a zone; it compares with no text and no time without one"
    elif reason.startswith("cannot compare string with numeric"):
        reason = "compares text with a number"
    hint = (
        f'columns: {", ".join(CANONICAL)}; quote "group" and "user"; text in \'single quotes\'; '
        "a time as DATE '2026-01-31' or '2026-01-31T12:00:00Z'::timestamptz, or by --since, --until"
    )
    where, reason = shortened(where, 400), shortened(reason, 400)
    return UsageError(f"{option} {where!r}: {reason}\n  next: {hint}")
