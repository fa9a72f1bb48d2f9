"""Read ``--policy NAME[:key=value,...]`` and the settings that several policies share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.named import find_named, perhaps
from gpuplan.cli.settings import LOOSELY, parse_settings
from gpuplan.planner.compare import Contender
from gpuplan.planner.policies import POLICIES, Policy

SAME = {"capacity": "gpus"}
"""A shared setting -> what it is called where a policy has one cluster of its own."""
TRIED = ("capacity", "threshold_s")
"""Settings of a sweep that are no circumstance: what it is set against does not share them."""


def read_contenders(
    policies: Sequence[str], settings: Sequence[str], gpus: int | None = None
) -> list[Contender]:
    """Return the policies to compare, with their settings.

    What stands with a policy counts before ``policy.key=value``, that before ``key=value``, which
    every policy with that setting takes, and that before ``gpus``.

    Args:
        policies: names, each with settings after a colon where it has its own.
        settings: ``key=value`` for all, or ``policy.key=value``.
        gpus: GPUs that any policy may hold: a cluster's size, or the most workers rented.

    Raises:
        UsageError: no such policy or setting, a value of another kind, a policy given twice, or
            two sizes for all.
    """
    known: dict[str, Policy] = {}
    names: dict[str, str] = {}
    for text in policies:
        if text in known:
            raise UsageError(f"--policy {text}: given twice; give one of them other settings")
        names[text], known[text] = _named(text, "--policy")
    shared = [text for text in settings if not _owner(text)]
    owned = [text for text in settings if _owner(text)]
    for text in shared:
        _check_known(text, known)
    for text in owned:
        if _owner(text) not in names.values():
            raise UsageError(f"--set {text!r}: {_owner(text)} is not compared")
    size = [] if gpus is None else [_size(gpus, shared)]
    found = []
    for text, policy in known.items():
        mine = [other for other in owned if _owner(other) == names[text]]
        values: dict[str, Any] = {}
        for texts in (
            [new for old in (*size, *shared) for new in taken(old, policy)],
            [other.strip()[len(names[text]) + 1 :] for other in mine],
            _own(text),
        ):
            values |= parse_settings(texts, policy.settings)
        found.append(Contender(text, names[text], values))
    return found


def read_rival(text: str, settings: Sequence[str]) -> Contender:
    """Return the policy that a sweep is set against.

    What stands with it counts before ``settings``, of which it takes those that it has; but not
    `TRIED`, which are what the sweep chooses.

    Raises:
        UsageError: no such policy or setting, or a value of another kind.
    """
    name, policy = _named(text, "--against")
    shared = [one for one in settings if one.partition("=")[0].strip() not in TRIED]
    values = parse_settings([new for old in shared for new in taken(old, policy)], policy.settings)
    return Contender(text, name, values | parse_settings(_own(text), policy.settings))


def _named(text: str, option: str) -> tuple[str, Policy]:
    """Return the policy of ``NAME[:key=value,...]`` and its name."""
    name, colon, own = (part.strip() for part in text.partition(":"))
    policy = find_named(name, POLICIES, option, "policy")
    if colon and not own:
        raise UsageError(f"{option} {text!r}: expected {name} or {name}:key=value")
    return name, policy


def _own(text: str) -> list[str]:
    """Return the settings of ``NAME[:key=value,...]``."""
    return [part for part in text.partition(":")[2].split(",") if part.strip()]


def read_settings(
    name: str, policy: Policy, settings: Sequence[str], gpus: int | None = None
) -> dict[str, Any]:
    """Return the settings of one policy; arguments as those of `read_contenders`.

    Raises:
        UsageError: no such setting, a value of another kind, two sizes, or a size for a policy that
            has none.
    """
    if gpus is None:
        return parse_settings(settings, policy.settings)
    size = taken(_size(gpus, settings), policy)
    if not size:
        raise UsageError(f"--gpus: {name} has no cluster and rents no workers")
    return parse_settings([*size, *settings], policy.settings)


def _size(gpus: int, settings: Sequence[str]) -> str:
    """Return ``gpus`` as a shared setting; another size beside it is an error, not a choice."""
    for text in settings:
        if text.partition("=")[0].strip() in ("capacity", "gpus"):
            raise UsageError(f"--gpus {gpus} and --set {text}: give one of the two")
    return f"capacity={gpus}"


def _owner(text: str) -> str:
    """Return the policy that a setting is meant for, or nothing where it is for all."""
    return text.partition("=")[0].strip().rpartition(".")[0]


def taken(text: str, policy: Policy) -> list[str]:
    """Return a shared setting as a policy takes it: as it is, by its other name, or not at all."""
    key, _, value = text.partition("=")
    for name in (key.strip(), SAME.get(key.strip())):
        if name in policy.settings:
            return [f"{name}={value}"]
    return []


def _check_known(text: str, policies: dict[str, Policy]) -> None:
    """Raise `UsageError` where no policy takes a shared setting."""
    if "=" not in text:
        raise UsageError(f"--set {text!r}: expected key=value or policy.key=value")
    if any(taken(text, policy) for policy in policies.values()):
        return
    key = text.partition("=")[0].strip()
    every = sorted({name for policy in policies.values() for name in policy.settings})
    meant = perhaps(key, every, LOOSELY)
    raise UsageError(
        f"--set {text!r}: none of {', '.join(policies)} has a setting {key!r}{meant}\n"
        "  next: gpuplan list policies"
    )
