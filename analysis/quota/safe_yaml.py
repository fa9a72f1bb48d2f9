"""A loader of YAML that makes nothing but plain values, and keeps times as they are written."""

from __future__ import annotations

from typing import Any

import yaml

Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SafeLoader(Base):  # type: ignore[misc]
    """The safe loader of PyYAML, without times."""


SafeLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in Base.yaml_implicit_resolvers.items()
}
