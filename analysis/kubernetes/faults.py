"""What is wrong with an object of Kubernetes, with its key and the value there."""

from __future__ import annotations

import json
import re
from typing import Any

from gpuplan.analysis.kubernetes.objects import KubeObject

WHERE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<key>.*)`", re.DOTALL)
STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
MOST_QUOTED = 40
"""Letters of a value that are quoted. Lists and objects, and what stands in place of one, are not:
they may hold secrets."""


def located(item: KubeObject, error: Exception) -> str:
    """Return what a decoder says of an object: the key, the value there, and the problem."""
    match = WHERE.fullmatch(str(error))
    if match is None:
        return str(error)
    key, problem = match["key"] or "the object", match["what"].replace("`", "")
    try:
        value = _value(item.plain(), match["key"])
    except (LookupError, TypeError, ValueError, RecursionError):
        return f"{key}: {problem}"
    expects_more = "object" in problem or "array" in problem
    if isinstance(value, list | dict) or (expects_more and value is not None):
        return f"{key}: {problem}"
    expected = problem.partition(", got ")[0]
    return f"{key}: found {json.dumps(value)[:MOST_QUOTED]}, {expected[:1].lower()}{expected[1:]}"


def _value(value: Any, key: str) -> Any:
    """Return what is at a key such as ``spec.podSets[0].count``."""
    for name, place in STEP.findall(key):
        value = value[int(place)] if place else value[name]
    return value
