"""Read ``--policy NAME[:key=value,...]`` and the settings that several policies share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.options.settings import check_once, parse_settings, perhaps_set
from gpuplan.planner.compare import Contender
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.registry import POLICIES, find_policy, policy_name

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
        UsageError: no such policy or setting, a value of another kind, a policy or a setting given
            twice, or two sizes for all.
    """
    check_once(settings)
    known: dict[str, Policy] = {}
    names: dict[str, str] = {}
    for text in map(str.strip, policies):
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
    for_all = [*_size(gpus, shared, names, known), *((text, f"--set {text}") for text in shared)]
    found = []
    for text, policy in known.items():
        given = _Given(policy)
        for setting, option in for_all:
            given.take(taken(setting, policy), option)
        for other in owned:
            if _owner(other) == names[text]:
                given.take([_unowned(other)], f"--set {other}")
        given.take(_own(text), f"--policy {text}")
        found.append(Contender(text, names[text], given.values, given.options))
    return found


def read_rival(text: str, settings: Sequence[str]) -> Contender:
    """Return the policy that a sweep is set against.

    What stands with it counts before ``settings``, of which it takes those that it has; but not
    `TRIED`, which are what the sweep chooses.

    Raises:
        UsageError: no such policy or setting, a setting given twice, or a value of another kind.
    """
    check_once(settings)
    name, policy = _named(text, "--against")
    given = _Given(policy)
    for one in settings:
        if one.partition("=")[0].strip() not in TRIED:
            given.take(taken(one, policy), f"--set {one}")
    given.take(_own(text), f"--against {text}")
    return Contender(text, name, given.values, given.options)


def read_contender(name: str, settings: Sequence[str], gpus: int | None = None) -> Contender:
    """Return the one policy of a replay; arguments as those of `read_contenders`.

    Raises:
        UsageError: no such policy or setting, a setting given twice, a value of another kind, two
            sizes, or a size for a policy that has none.
    """
    check_once(settings)
    plain = name.partition(":")[0].strip()
    if policy_name(plain) in POLICIES and _own(name):
        listed = " ".join(f"--set {part.strip()}" for part in _own(name))
        raise UsageError(
            f"--policy {name!r}: one policy has its settings in --set\n"
            f"  next: --policy {plain} {listed}"
        )
    policy = find_policy(name)
    name = policy.name
    given = _Given(policy)
    for setting, option in _size(gpus, settings, {name: name}, {name: policy}):
        given.take(taken(setting, policy), option)
    for text in settings:
        given.take([text], f"--set {text}")
    return Contender(name, name, given.values, given.options)


class _Given:
    """What is set of a policy's settings, and by which options; the later counts."""

    def __init__(self, policy: Policy) -> None:
        self.known = policy.settings
        self.values: dict[str, Any] = {}
        self.options: dict[str, str] = {}

    def take(self, texts: Sequence[str], option: str) -> None:
        """Read the ``key=value`` texts that stand in an option."""
        is_set = option == f"--set {''.join(texts)}"
        values = parse_settings(texts, self.known, None if is_set else option)
        self.values |= values
        several = len(texts) > 1
        self.options |= {key: f"{option} ({key})" if several else option for key in values}


def _named(text: str, option: str) -> tuple[str, Policy]:
    """Return the policy of ``NAME[:key=value,...]`` and its name."""
    name, colon, own = (part.strip() for part in text.partition(":"))
    policy = find_policy(name, option)
    if colon and not own:
        raise UsageError(f"{option} {text!r}: expected {name} or {name}:key=value")
    return policy.name, policy


def _own(text: str) -> list[str]:
    """Return the settings of ``NAME[:key=value,...]``."""
    return [part for part in text.partition(":")[2].split(",") if part.strip()]


def _size(
    gpus: int | None, settings: Sequence[str], names: Mapping[str, str], known: Mapping[str, Policy]
) -> list[tuple[str, str]]:
    """Return ``gpus`` as a shared setting and its option, or nothing where it is not given.

    Raises:
        UsageError: another size stands beside it, or no policy has a size.
    """
    if gpus is None:
        return []
    for text in settings:
        if text.partition("=")[0].strip() in ("capacity", "gpus"):
            raise UsageError(f"--gpus {gpus} and --set {text}: give one of the two")
    setting = f"capacity={gpus}"
    if not any(taken(setting, policy) for policy in known.values()):
        what = " and ".join(dict.fromkeys(names.values()))
        raise UsageError(f"--gpus {gpus}: {what} has no cluster and rents no workers")
    return [(setting, f"--gpus {gpus}")]


def _owner(text: str) -> str:
    """Return the policy that a setting is meant for, or nothing where it is for all."""
    return policy_name(text.partition("=")[0].strip().rpartition(".")[0])


def _unowned(text: str) -> str:
    """Return ``key=value`` of ``policy.key=value``."""
    key, _, value = text.strip().partition("=")
    return f"{key.rpartition('.')[2]}={value}"


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
    raise UsageError(
        f"--set {text!r}: none of {', '.join(policies)} has a setting {key!r}"
        f"{perhaps_set(key, every)}\n"
        "  next: gpuplan list policies"
    )
