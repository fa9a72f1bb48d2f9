"""The policies a trace can be replayed under, by name: one line each."""

from __future__ import annotations

from gpuplan.analysis.lookup import find_named
from gpuplan.planner.policies import allpass_policies, backfill, cluster_policies
from gpuplan.planner.policies.policy import Baseline, Policy
from gpuplan.planner.policies.rounds import equal, pollux, pollux_autoscaling
from gpuplan.planner.policies.widths import fixed_width, recorded

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        allpass_policies.ALLPASS,
        *allpass_policies.VARIANTS,
        *cluster_policies.SCHEDULERS,
        backfill.EASY,
        backfill.CONSERVATIVE,
        recorded.POLICY,
        fixed_width.POLICY,
        equal.POLICY,
        pollux.POLICY,
        pollux_autoscaling.POLICY,
    )
}

BASELINES: dict[str, Baseline] = {
    name: policy.baseline for name, policy in POLICIES.items() if policy.baseline is not None
}
"""The policies that ``gpuplan pareto --baseline`` takes."""

RENAMED = {"--policy": {"fixed": "fixed-threshold"}, "--baseline": {"fixed": "fixed-width"}}
"""Old names that each option still takes, and the policies that they stand for."""


def policy_name(text: str, option: str = "--policy") -> str:
    """Return the name of a policy that may be called by its old one."""
    return RENAMED.get(option, RENAMED["--policy"]).get(text, text)


def find_policy(name: str, option: str = "--policy") -> Policy:
    """Return a policy by name, or by its old one.

    Raises:
        UsageError: there is none; the message names what exists.
    """
    return find_named(policy_name(name, option), POLICIES, option, "policy")


def find_baseline(name: str) -> Policy:
    """Return a policy that ``--baseline`` takes, by name or by its old one.

    Raises:
        UsageError: there is none; the message names what exists.
    """
    known = {name: POLICIES[name] for name in BASELINES}
    return find_named(policy_name(name, "--baseline"), known, "--baseline")
