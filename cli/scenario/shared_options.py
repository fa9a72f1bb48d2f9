"""Options and settings that a scenario gives once, and which studies take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from gpuplan.analysis.base.amounts import NO_LIMIT
from gpuplan.analysis.base.option import Group, declared_options
from gpuplan.cli.documents.book_options import gpu_setting, takes_price, usable
from gpuplan.cli.documents.studies import study_options
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.compare import DEFAULT_POLICIES
from gpuplan.planner.requests.gpu_types import GpuTypes
from gpuplan.planner.requests.replays import ReplayRequest


def _options_of(group: Any) -> list[str]:
    """Return the names of the options of a group, as a scenario writes them."""
    options = [option for option in declared_options(group) if not option.opt.argument]
    return [option.flag.removeprefix("--").replace("-", "_") for option in options]


NOT_OF_WORKLOAD = ("jobs.spot", "jobs.log", "prices", "provider", "checkpoints", "by")
"""Options of a replay that each study gives itself, or ``log`` of the section."""

SECTIONS: dict[str, dict[str, str]] = {
    name: {option: option for group in groups for option in _options_of(group)}
    for name, groups in {
        "workload": (Annotated[ReplayRequest, Group(without=NOT_OF_WORKLOAD)],),
        "prices": (PriceRequest, GpuTypes),
        "speedups": (ClassOptions,),
    }.items()
}
"""Section -> its key -> the option that a study takes it as."""
SECTIONS["prices"]["file"] = SECTIONS["prices"].pop("prices")
SECTIONS["prices"]["reference"] = "reference"
SECTIONS["speedups"] = {"speedup": "speedup"} | SECTIONS["speedups"]

SIZES = ("capacity", "gpus", "cluster")
"""Settings of policies that the options ``cluster`` and ``gpus`` of a study give."""


@dataclass(frozen=True, slots=True)
class Common:
    """What a scenario gives once for all its studies.

    Attributes:
        sections: section -> its key -> the value.
        clouds: settings of every policy that has them.
        policies: settings of single policies, by name.
    """

    sections: Mapping[str, Mapping[str, Any]]
    clouds: Mapping[str, str]
    policies: Mapping[str, Mapping[str, str]]

    def options_of(self, command: str, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that a study with these options of its own takes of the sections."""
        handed = {
            SECTIONS[section][key]: value
            for section, table in self.sections.items()
            for key, value in table.items()
            if _takes(command, section, SECTIONS[section][key], value)
        }
        handed = usable(command, handed, stated)
        return handed

    def settings_of(self, command: str, options: Mapping[str, Any]) -> list[str]:
        """Return the settings that a replay with these options takes, each ``key=value``.

        The last of equal keys counts, and what the options set themselves before all.
        """
        typed = options.get("set") or ()
        texts = [typed] if isinstance(typed, str) else map(str, typed)  # of a table its keys
        set_there = {_slot(text) for text in texts}
        last = {_slot(text): text for text in self._settings(command, options)}
        return [text for key, text in last.items() if key not in set_there]

    def cluster_of(self, command: str, options: Mapping[str, Any]) -> list[str]:
        """Return the cluster of all for what a sweep is set against, if it has one."""
        from gpuplan.planner.registry import POLICIES
        from gpuplan.planner.requests.policy_specs import has_own_size, size_setting

        against = options.get("against")
        if command != "sweep" or not isinstance(against, str) or options.get("cluster"):
            return []
        policy = POLICIES.get(against.partition(":")[0].strip())
        if policy is None or size_setting(policy) != "cluster" or has_own_size(against):
            return []
        sizes = [self.clouds[name] for name in ("cluster", "gpus") if name in self.clouds]
        return [size for size in sizes if size.lower() not in NO_LIMIT]

    def _settings(self, command: str, options: Mapping[str, Any]) -> list[str]:
        from gpuplan.planner.registry import POLICIES, policy_name
        from gpuplan.planner.requests.policy_specs import setting_for

        own_size = any(options.get(name) is not None for name in ("cluster", "gpus"))
        sizes = SIZES if own_size and command != "sweep" else ()  # a study's own counts first
        shared = [f"{key}={value}" for key, value in self.clouds.items() if key not in sizes]
        prices = self.sections.get("prices", {})
        if "gpu" not in self.clouds:
            shared += gpu_setting(command, options, prices)
        if command == "compare":
            names_given = options.get("policy") or DEFAULT_POLICIES
            texts = names_given if isinstance(names_given, list | tuple) else [names_given]
            names = [str(text).partition(":")[0].strip() for text in texts]
            compared = [POLICIES[n] for n in map(policy_name, names) if n in POLICIES]
            return [
                *(text for text in shared if any(setting_for(text, policy) for policy in compared)),
                *(
                    f"{name}.{key}={value}"
                    for name, settings in self.policies.items()
                    if name in names
                    for key, value in settings.items()
                ),
            ]
        name = "allpass" if command == "sweep" else str(options.get("policy", "allpass"))
        policy = POLICIES.get(policy_name(name))
        if command not in ("simulate", "sweep") or policy is None:
            return []
        shared.sort(key=lambda text: text.partition("=")[0] in policy.settings)  # own names last
        pairs = [new for text in shared for new in setting_for(text, policy)]
        of_policy = self.policies.get(name, {})
        pairs += [f"{key}={value}" for key, value in of_policy.items() if key not in sizes]
        # A sweep sets the controller itself.
        return [text for text in pairs if command != "sweep" or not text.startswith("controller=")]


def _slot(text: str) -> str:
    """Return what ``key=value`` sets: ``gpus`` is the short form of ``cluster``."""
    owner, dot, key = text.partition("=")[0].strip().rpartition(".")
    return owner + dot + ("cluster" if key == "gpus" else key)


def _takes(command: str, section: str, option: str, value: Any) -> bool:
    """Return whether a command takes what a section gives for all."""
    declared = study_options(command).get(option)
    return declared is not None and (section != "prices" or takes_price(command, option, value))


@cache
def setting_names() -> Mapping[str, frozenset[str]]:
    """Return the names of the settings of every policy."""
    from gpuplan.planner.registry import POLICIES, RENAMED

    old = {name: POLICIES[new] for name, new in RENAMED["--policy"].items()}
    return {name: frozenset(policy.settings) for name, policy in (dict(POLICIES) | old).items()}
