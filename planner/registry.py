"""The policies a trace can be replayed under, by name: one line each.

An installed package adds one through an entry point in the group ``gpuplan.policies``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.plugins import Registry
from gpuplan.planner.policies import allpass_policies, backfill, cluster_policies
from gpuplan.planner.policies.mixed import allox, fft, gavel, pal, sia, tiresias
from gpuplan.planner.policies.mixed.ranked import on_several_types
from gpuplan.planner.policies.policy import Baseline, Policy, checked
from gpuplan.planner.policies.rounds import equal, pollux, pollux_autoscaling
from gpuplan.planner.policies.spot.policies import LENDING
from gpuplan.planner.policies.widths import fixed_width, recorded
from gpuplan.planner.runs.simulation import Simulation

RENAMED = {"--policy": {"fixed": "fixed-threshold"}, "--baseline": {"fixed": "fixed-width"}}
"""Old names that each option still takes, and the policies that they stand for."""

POLICIES = Registry(
    "gpuplan.policies",
    "policy",
    Policy,
    (
        *allpass_policies.POLICIES,
        *map(on_several_types, cluster_policies.SCHEDULERS),
        backfill.EASY,
        backfill.CONSERVATIVE,
        recorded.POLICY,
        fixed_width.POLICY,
        equal.POLICY,
        pollux.POLICY,
        pollux_autoscaling.POLICY,
        fft.POLICY,
        gavel.POLICY,
        allox.POLICY,
        tiresias.POLICY,
        pal.POLICY,
        sia.POLICY,
        *LENDING,
    ),
    calls={"run": Simulation},
    reserved=("all", *(name for names in RENAMED.values() for name in names)),
    prepare=checked,
)


class _Baselines(Mapping[str, Baseline]):
    """The policies of `POLICIES` that have a baseline."""

    def __getitem__(self, name: str) -> Baseline:
        found = POLICIES[name].baseline
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, policy in POLICIES.items() if policy.baseline is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


BASELINES = _Baselines()
"""The policies that ``gpuplan pareto --baseline`` takes."""


BESIDE_LENDING = {"first-fit": "spot-first-fit"}
"""Policies that stand for others where GPUs are lent: these know of priorities and evict."""


def policy_name(text: str, option: str = "--policy") -> str:
    """Return the name of a policy that may be called by its old one."""
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
