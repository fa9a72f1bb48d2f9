"""The policies a trace can be replayed under, by name: one line each.

An installed package adds one through an entry point in the group ``gpuplan.policies``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.plugins import Registry
from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.planner.policies.policy import Baseline, Policy, checked
from gpuplan.planner.policies.spot.settings import ABOUT
from gpuplan.planner.runs.simulation import Simulation

MODULES = {
    "allpass": "allpass_policies",
    "fixed-threshold": "allpass_policies",
    "serverless-only": "allpass_policies",
    "serverful-only": "allpass_policies",
    "hpa": "allpass_policies",
    **dict.fromkeys(SCHEDULERS, "mixed.ranked"),
    "easy": "backfill",
    "conservative": "backfill",
    "recorded": "widths.policies",
    "fixed-width": "widths.policies",
    "equal": "rounds.equal",
    "pollux": "rounds.pollux",
    "pollux-autoscaling": "rounds.pollux",
    "fft": "mixed.fft",
    "gavel": "mixed.gavel",
    "allox": "mixed.allox",
    "tiresias": "mixed.tiresias",
    "pal": "mixed.pal",
    "sia": "mixed.sia",
    **dict.fromkeys(ABOUT, "spot.policies"),
    "twin": "twin",
    "kueue": "kueue",
    "kai": "kai",
}
"""Policy -> its file in `gpuplan.planner.policies`, which has a ``POLICY`` or ``POLICIES``."""

RENAMED = {
    "--policy": {"fixed": "fixed-threshold", "fcfs": "fifo", "slurm": "twin"},
    "--baseline": {"fixed": "fixed-width"},
}
"""Other names that each option takes, old ones or usual ones, and the policies they stand for."""


class _BuiltIn(Mapping[str, Policy]):
    """The policies of `MODULES`; the file of one is imported when it is looked up."""

    def __getitem__(self, name: str) -> Policy:
        module = import_module(f"gpuplan.planner.policies.{MODULES[name]}")
        policies: tuple[Policy, ...] = getattr(module, "POLICIES", None) or (module.POLICY,)
        return next(policy for policy in policies if policy.name == name)

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


POLICIES = Registry(
    "gpuplan.policies",
    "policy",
    Policy,
    _BuiltIn(),
    calls={"run": Simulation},
    reserved=("all", *(name for names in RENAMED.values() for name in names)),
    prepare=checked,
)


class _Baselines(Mapping[str, Baseline]):
    """The policies of `POLICIES` that have a baseline."""

    def __getitem__(self, name: str) -> Baseline:
        baseline = POLICIES[name].baseline
        if baseline is None:
            raise KeyError(name)
        return baseline

    def __iter__(self) -> Iterator[str]:
        return (name for name, policy in POLICIES.items() if policy.baseline is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


BASELINES = _Baselines()
"""The policies that ``gpuplan pareto --baseline`` takes."""


BESIDE_LENDING = {"first-fit": "spot-first-fit"}
"""Policies that stand for others where GPUs are lent: these know of priorities and evict."""


def policy_name(text: str, option: str = "--policy") -> str:
    """Return the name of a policy that may be called by another of `RENAMED`."""
    return RENAMED.get(option, RENAMED["--policy"]).get(text, text)


def find_policy(name: str, option: str = "--policy") -> Policy:
    """Return a policy by name, or by its old one.

    Raises:
        PluginError: it is of an installed package and cannot be used.
        UsageError: there is none; the message names what exists.
    """
    return find_named(policy_name(name, option), POLICIES, option, "policy")


def find_baseline(name: str) -> Policy:
    """Return a policy that ``--baseline`` takes, by name or by its old one.

    Raises:
        PluginError: it is of an installed package and cannot be used.
        UsageError: there is none; the message names what exists.
    """
    new = policy_name(name, "--baseline")
    find_named(new, BASELINES, "--baseline")
    return POLICIES[new]
