"""The templates of documents: kept in files of their own, filled in here."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpuplan.cli.formats.escape import visible_lines


@cache
def _environment(is_page: bool) -> Environment:
    return Environment(
        loader=PackageLoader("gpuplan.cli.documents"),
        autoescape=is_page,
        finalize=_shown if is_page else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill(template: str, **values: Any) -> str:
    """Return a template with its values; what a page shows is escaped."""
    return _environment(".html" in template).get_template(template).render(**values)


def _shown(value: Any) -> Any:
    """Return what a page shows of a value; what has been escaped is markup already."""
    is_plain = isinstance(value, str) and not hasattr(value, "__html__")
    return visible_lines(value) if is_plain else value
