"""Which generic resources of Slurm are accelerators: all but those known as something else."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

MOST_DEVICES = 4096
"""Devices of a job; a resource of which a job has more counts something else, as gigabytes."""


@cache
def no_accelerators() -> frozenset[str]:
    """Return the names of resources that are no accelerators, in lower case (``gres.toml``)."""
    text = Path(__file__).with_name("gres.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(text)["no_accelerator"]
    return frozenset(name for names in groups.values() for name in names)
