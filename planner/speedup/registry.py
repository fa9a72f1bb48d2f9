"""From the text of ``--speedup`` to a model, and the list of known models.

An installed package adds a law through an entry point in the group ``gpuplan.speedups``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.plugins import Registry
from gpuplan.planner.speedup import sia, t4
from gpuplan.planner.speedup.law import ASSUMED_LAW, BUILT_IN, SpeedupLaw, checked
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel, of_types
from gpuplan.planner.speedup.pollux import load_goodputs
from gpuplan.planner.speedup.table import load_table

DEFAULT_SPEEDUP = "power:0.8"
OTHER_KINDS = ("profile", "table", "pollux")
"""What else may stand before the colon of ``--speedup``."""


@dataclass(frozen=True, slots=True)
class SpeedupSource:
    """One way to give a speedup, as ``gpuplan list speedups`` shows it.

    Attributes:
        name: the value of ``--speedup``; capitals are placeholders.
        description: a short description.
        source: where it comes from.
        as_of: date of the source, as YYYY-MM or YYYY; a dash if unknown.
    """

    name: str
    description: str
    source: str
    as_of: str


LAWS = Registry(
    "gpuplan.speedups",
    "speedup law",
    SpeedupLaw,
    BUILT_IN,
    calls={"make": object},
    reserved=OTHER_KINDS,
    prepare=checked,
)
PROFILES = {
    "t4": (
        {"T4": t4.CLASSES},
        SpeedupSource(
            "profile:t4",
            f"measured on AWS g4dn (T4, 4 GPUs per node): {', '.join(t4.CLASSES)}; with job sizes "
            "and rescaling times",
            "Sia artifact (siasosp23/artifacts), Pollux artifact (petuum/adaptdl)",
            "2023-10",
        ),
    ),
    "sia": (
        sia.TYPES,
        SpeedupSource(
            "profile:sia",
            f"the same jobs as profile:t4 on several GPU types: {', '.join(sia.TYPES)}",
            "Sia artifact (siasosp23/artifacts), Pollux artifact (petuum/adaptdl)",
            "2023-10",
        ),
    ),
}
TABLE = SpeedupSource(
    "table:FILE.csv",
    "your measurements: job_class, num_gpus, throughput[, epoch[, work_share]][, gpu_type]",
    "the file; straight lines between measured widths",
    "-",
)
POLLUX = SpeedupSource(
    "pollux:FILE.csv",
    "your parameters of Pollux' goodput model, one row per class and epoch",
    "Qiao et al., Pollux, OSDI 2021",
    "2021",
)


def list_speedups() -> tuple[SpeedupSource, ...]:
    """Return everything ``--speedup`` accepts."""
    laws = tuple(
        SpeedupSource(law.written(",".join(law.parameters)), law.description, law.source, law.as_of)
        for law in LAWS.values()
    )
    return (*laws, *(listed for _, listed in PROFILES.values()), TABLE, POLLUX)


def package_of_speedup(listed: str) -> str | None:
    """Return the package that adds something listed; None for what is built in."""
    name = listed.partition(":")[0]
    return None if name in OTHER_KINDS else LAWS.package_of(name)


def example_speedups() -> list[str]:
    """Return values of ``--speedup`` that need no file; those of installed packages by name."""
    built_in = [law.written(law.example) for law in LAWS.built_in.values()]
    added = [name for name in LAWS.names() if name not in LAWS.built_in]
    return [*built_in, *added, *(f"profile:{name}" for name in PROFILES)]


def load_speedup(text: str) -> SpeedupModel:
    """Return the model that ``text`` names.

    A parameter of a law may be a range, ``power:0.6..0.9``: the model is then the law in the
    middle of the range, with the laws at its two ends in `SpeedupModel.ends`.

    Raises:
        UsageError: no such law or profile, or a parameter out of range.
        InputError: the table cannot be read.
        PluginError: the law is of an installed package and cannot be used.
    """
    kind, _, rest = text.strip().partition(":")
    if kind in LAWS:
        return _law(kind, rest, f"--speedup {text!r}")
    if kind == "profile":
        if rest not in PROFILES:
            expected = ", ".join(PROFILES)
            raise UsageError(f"--speedup {text!r}: no such profile; expected one of {expected}")
        by_type, listed = PROFILES[rest]
        return of_types(text, listed.source, by_type)
    if kind == "pollux" and rest:
        return load_goodputs(Path(rest), text)
    if kind == "table" and rest:
        return load_table(Path(rest), text)
    if re.search(r"\.csv(\.(gz|zst))?$", text.lower()):
        return load_table(Path(text), text)
    expected = ", ".join(source.name for source in list_speedups())
    meant = perhaps(kind, (*LAWS, *OTHER_KINDS))
    raise UsageError(f"--speedup {text!r}: expected one of {expected}{meant}")


def _law(name: str, text: str, option: str) -> SpeedupModel:
    law = LAWS[name]
    parts = [part.strip() for part in text.split(",")] if text else []
    if len(parts) != len(law.parameters):
        listed = law.written(",".join(law.parameters))
        example = f", for example {law.written(law.example)}" if law.example else ""
        raise UsageError(f"{option}: expected {listed}{example}")
    ranges = [_range(part, option) for part in parts]
    low, high = ([r[end] for r in ranges] for end in (0, 1))
    ends = (_one_law(law, low), _one_law(law, high))
    if low == high:
        return ends[0]
    middle = [(a + b) / 2 for a, b in ranges]
    return replace(_one_law(law, middle), ends=ends)


def _one_law(law: SpeedupLaw, values: list[float]) -> SpeedupModel:
    name = law.written(",".join(f"{value:g}" for value in values))
    profile = ClassProfile(epochs=(law.make(*values),))
    return SpeedupModel(name=name, origin=ASSUMED_LAW, classes={}, law=profile)


def _range(text: str, option: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in (text.split("..") if ".." in text else (text, text)))
    except ValueError:
        raise UsageError(f"{option}: {text!r} must be a number or a range LOW..HIGH") from None
    if not math.isfinite(low + high):
        raise UsageError(f"{option}: {text!r} must be finite")
    if not low <= high:
        raise UsageError(f"{option}: the range {text!r} must run from low to high")
    return low, high


def needs_classes(values: Mapping[str, Any]) -> bool:
    """Return whether settings ask for speedups by job class, so that jobs must have theirs."""
    return "speedup" in values and law_of(values["speedup"]) not in LAWS


def law_of(text: str) -> str:
    """Return the name that a speedup begins with: ``power`` of ``power:0.8``."""
    return text.strip().partition(":")[0]
