"""The results of ``gpuplan list``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType


@dataclass(frozen=True, slots=True)
class ListParameters:
    """What was asked for.

    Attributes:
        name: the one to list; absent where all of a kind are.
    """

    name: str | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ListedFormat:
    """A format of job logs or price tables.

    Attributes:
        name: for ``--source-format``.
        description: what it is.
        source: where it is described.
        command: the command that reads it.
        package: the installed package that adds it; null for what is built in.
    """

    name: str
    description: str
    source: str
    command: str
    package: str | None


@dataclass(frozen=True, slots=True)
class ListedSetting:
    """A setting of a policy.

    Attributes:
        setting: its name, for ``--set``.
        about: what it is.
        kind: of its values.
        unit: of its values; null without one.
        default: its value where it is not set.
        choices: its only values; empty where others are allowed.
        unlimited: whether it may be ``none`` for no limit.
    """

    setting: str
    about: str
    kind: str
    unit: str | None
    default: Any
    choices: tuple[str, ...]
    unlimited: bool


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A policy.

    Attributes:
        policy: its name, for ``--policy``.
        about: what it does.
        source: where it is described.
        settings: in their order.
        package: the installed package that adds it; null for what is built in.
    """

    policy: str
    about: str
    source: str
    settings: tuple[ListedSetting, ...]
    package: str | None


@dataclass(frozen=True, slots=True)
class ListedSpeedup:
    """A speedup function, or measured speedups.

    Attributes:
        name: for ``--speedup``.
        description: what it is.
        source: where it is described or was measured.
        as_of: its date.
        package: the installed package that adds it; null for what is built in.
    """

    name: str
    description: str
    source: str
    as_of: str
    package: str | None


@dataclass(frozen=True, slots=True)
class ListedMethod:
    """A planning method.

    Attributes:
        name: for ``--method``.
        about: what it does.
        source: where it is described.
    """

    name: str
    about: str
    source: str


@dataclass(frozen=True, slots=True)
class ListedBaseline:
    """A baseline of ``gpuplan pareto``.

    Attributes:
        name: for ``--baseline``.
        about: what it does.
        knob: the parameter it is replayed at several values of; null without one.
        source: where it is described.
    """

    name: str
    about: str
    knob: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """The price of a GPU at a provider.

    Attributes:
        provider: its name.
        category: of the provider.
        gpu_type: the GPU.
        kind: of the price, such as on demand.
        usd_per_gpu_h: the typical price; null where not known.
        least_usd_per_gpu_h, most_usd_per_gpu_h: the range; null where not known.
        startup_s: mean time until a GPU is ready; null where not measured.
        source: where the price is from.
        as_of: its date.
    """

    provider: str
    category: str
    gpu_type: str
    kind: str
    usd_per_gpu_h: float | None
    least_usd_per_gpu_h: float | None
    most_usd_per_gpu_h: float | None
    startup_s: float | None
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class ListResults:
    """What there is of one kind; the fields of the others are absent."""

    formats: tuple[ListedFormat, ...] | UnsetType = UNSET
    policies: tuple[ListedPolicy, ...] | UnsetType = UNSET
    speedups: tuple[ListedSpeedup, ...] | UnsetType = UNSET
    methods: tuple[ListedMethod, ...] | UnsetType = UNSET
    baselines: tuple[ListedBaseline, ...] | UnsetType = UNSET
    providers: tuple[ListedPrice, ...] | UnsetType = UNSET
