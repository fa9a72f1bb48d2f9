"""Options and settings that a scenario gives once, and which studies take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from gpuplan.cli.options import PriceChoice, TraceChoice
from gpuplan.cli.pareto.options import MoneyChoice, ScalingChoice, WidthChoice
from gpuplan.cli.replays import ReplayChoice
from gpuplan.cli.studies import study_options

SECTIONS: dict[str, dict[str, str]] = {
    name: {field.name: field.name for group in groups for field in fields(group)}
    for name, groups in {
        "workload": (TraceChoice, ReplayChoice),
        "prices": (PriceChoice, MoneyChoice),
        "speedups": (ScalingChoice, WidthChoice),
    }.items()
}
"""Section -> its key -> the option that a study takes it as."""
SECTIONS["prices"]["file"] = SECTIONS["prices"].pop("prices")

PRICED = ("characterize", "pareto")
"""What takes ``[prices]``: a replay takes prices as its clouds' (``prices = ...`` of its own)."""

ONLY_WITH = {
    "characterize": {"gpu": "prices", "reference": "prices", "as_of": "prices"},
    "pareto": {"prices": "gpu", "provider": "prices"},
}
"""Command -> an option that it refuses -> without this other one."""


def takes(command: str, section: str, option: str, value: Any) -> bool:
    """Return whether a command takes what a section gives for all."""
    known = study_options(command).get(option)
    if known is None or (section == "prices" and command not in PRICED):
        return False
    # Several GPUs are a mix, for a command that plans for one.
    return section != "prices" or known.multiple or not isinstance(value, list | dict)


def without_idle(command: str, own: Mapping[str, Any], handed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is handed to a study, less what its command refuses without another option."""
    kept = dict(handed)
    for _ in ONLY_WITH.get(command, {}):  # one may need another that is left out
        kept = {
            option: value
            for option, value in kept.items()
            if ONLY_WITH.get(command, {}).get(option, option) in {**kept, **own}
        }
    return kept


@cache
def setting_names() -> Mapping[str, frozenset[str]]:
    """Return the names of the settings of every policy."""
    from gpuplan.planner.policies import POLICIES

    return {name: frozenset(policy.settings) for name, policy in POLICIES.items()}


def settings_of(
    command: str,
    options: Mapping[str, Any],
    clouds: Mapping[str, str],
    policies: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Return the settings that a replay takes, each ``key=value``.

    Args:
        command: the study's command.
        options: its options.
        clouds: settings of every policy that has them.
        policies: settings of single policies, by name.
    """
    from gpuplan.cli.commands.compare import USUAL
    from gpuplan.cli.contenders import taken
    from gpuplan.planner.policies import POLICIES

    if command == "compare":
        given = options.get("policy") or USUAL
        texts = given if isinstance(given, list | tuple) else [given]
        names = [str(text).partition(":")[0].strip() for text in texts]
        known = [POLICIES[name] for name in names if name in POLICIES]
        shared = [f"{key}={value}" for key, value in clouds.items()]
        return [
            *(text for text in shared if any(taken(text, policy) for policy in known)),
            *(
                f"{name}.{key}={value}"
                for name, settings in policies.items()
                if name in names
                for key, value in settings.items()
            ),
        ]
    # A sweep sets the controller itself.
    name = "allpass" if command == "sweep" else str(options.get("policy", "allpass"))
    if command not in ("simulate", "sweep") or name not in POLICIES:
        return []
    every = [f"{key}={value}" for key, value in clouds.items()]
    found = [new for text in every for new in taken(text, POLICIES[name])]
    found += [f"{key}={value}" for key, value in policies.get(name, {}).items()]
    return [text for text in found if command != "sweep" or not text.startswith("controller=")]
