"""Kinds of cases: each drafts a case and has its share of all cases."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz.cases import Draft
from fuzz.kinds.commands import options, paths
from fuzz.kinds.disks import disks
from fuzz.kinds.files import option_files
from fuzz.kinds.mapped import mapped
from fuzz.kinds.readers import prices, readers
from fuzz.kinds.scenarios import scenarios
from fuzz.kinds.signals import signals
from fuzz.kinds.subjects import SUBJECTS, drafter
from fuzz.kinds.tables import traces

KINDS: dict[str, Callable[[Random], Draft]] = {
    "readers": readers,
    "mapped": mapped,
    "prices": prices,
    "traces": traces,
    "options": options,
    "option files": option_files,
    "scenarios": scenarios,
    "paths": paths,
    "disks": disks,
    "signals": signals,
    **{name: drafter(name) for name in SUBJECTS},
}
WEIGHTS = {
    "readers": 22.0,
    "mapped": 6.0,
    "prices": 13.0,
    "traces": 9.0,
    "options": 14.0,
    "option files": 5.0,
    "scenarios": 5.0,
    "paths": 5.0,
    "disks": 2.8,
    "signals": 0.2,
    "sites": 4.0,
    "lending": 2.0,
    "several GPU types": 2.0,
    "sharing": 2.0,
    "metrics": 2.0,
    "demand": 2.0,
    "plans": 2.0,
    "Kubernetes": 2.0,
}
"""Share of each kind, percent; a case of ``signals`` costs two processes."""
