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
}
WEIGHTS = {
    "readers": 32.0,
    "mapped": 8.0,
    "prices": 15.0,
    "traces": 10.0,
    "options": 15.0,
    "option files": 6.0,
    "scenarios": 6.0,
    "paths": 5.0,
    "disks": 2.8,
    "signals": 0.2,
}
"""Share of each kind, percent; a case of ``signals`` costs two processes."""
