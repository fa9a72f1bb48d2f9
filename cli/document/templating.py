"""The templates of documents: kept in files of their own, filled in here."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("gpuplan.cli.document"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill(template: str, **values: Any) -> str:
    """Return a template with its values; what a page shows is escaped."""
    return _environment().get_template(template).render(**values)
