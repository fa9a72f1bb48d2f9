"""Read ``--policy NAME[:key=value,...]`` and the settings that several policies share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.quota_settings import gpus_elsewhere, has_quotas
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.registry import BESIDE_LENDING, POLICIES, find_policy, policy_name
from gpuplan.planner.requests.clusters import ClusterSize
from gpuplan.planner.requests.settings import (
    OptionSetting,
    check_once,
    parse_settings,
    perhaps_set,
    removed_hint,
    typed,
)
from gpuplan.planner.runs.cluster_setting import SIZES
from gpuplan.simkit.cluster_shape import ClusterShape

SAME = {"capacity": "gpus"}
"""A shared setting -> what it is called where a policy has one cluster of its own."""
SWEPT = ("capacity", "threshold_s")
"""Settings of a sweep that the policies it is compared with do not share."""


def read_sizes(
    policies: Sequence[str],
    settings: Sequence[str],
    sizes: Sequence[ClusterSize],
    *,
    are_priced: bool = False,
) -> list[PolicySpec]:
    """Return each policy on each cluster; one that takes no size, or has its own, once.

    Arguments and errors are those of `read_specs`. With several sizes a label says which.
    """
    if len(sizes) <= 1:
        return read_specs(policies, settings, *sizes, are_priced=are_priced)
    specs: list[PolicySpec] = []
    for size in sizes:
        for spec in read_specs(policies, settings, size, are_priced=are_priced):
            # Of one cluster or limit the size is an option; what stands with the policy is not.
            if size.option in spec.option_of.values():
                label = _sized(spec, size)
                if any(label == other.label for other in specs):
                    raise UsageError(
                        f"{size.option}: {spec.name} rents {size.shape.gpus:,} GPUs at most, as on "
                        "another --cluster\n  next: give each number of GPUs once, or compare "
                        "policies that rent alone"
                    )
                specs.append(replace(spec, label=label))
            elif all(spec.label != other.label for other in specs):
                specs.append(spec)
    return specs


def _sized(spec: PolicySpec, size: ClusterSize) -> str:
    """Return a label with the cluster in it, as it could be typed."""
    policy = find_policy(spec.policy)
    key = "gpus" if size_setting(policy) == "cluster" else "capacity"
    shape = size.shape
    plain = len(shape.pools) == 1 and shape.pool.gpus_per_node is None and not shape.gpu_types
    if key == "gpus" and not plain:
        key, text = "cluster", str(shape).replace(",", "/")
    else:
        text = str(shape.gpus)
    return f"{spec.label}{',' if ':' in spec.label else ':'}{key}={text}"


def read_cluster_spec(policy: str) -> PolicySpec:
    """Return a policy of one cluster, whose jobs wait for each other. Raises `UsageError`."""
    spec = read_spec(policy, ())
    settings = find_policy(spec.policy).settings
    if "cluster" not in settings:
        where, step = gpus_elsewhere(settings)
        raise UsageError(
            f"--policy {spec.policy}: {where}, so it has no cluster of its own\n  next: {step}"
        )
    return spec


def read_specs(
    policies: Sequence[str],
    settings: Sequence[str],
    size: ClusterSize | None = None,
    *,
    are_priced: bool = False,
) -> list[PolicySpec]:
    """Return the policies to compare, with their settings.

    What stands with a policy counts before ``policy.key=value``, that before ``key=value``, which
    every policy with that setting takes, and that before ``size``.

    Args:
        policies: names, each with settings after a colon where it has its own.
        settings: ``key=value`` for all, or ``policy.key=value``.
        size: GPUs that any policy may hold: its cluster, or the most workers rented.
        are_priced: whether prices are looked up; then of the GPU type of a cluster.

    Raises:
        UsageError: no such policy or setting, a value of another kind, a policy or a setting given
            twice, two sizes for all, or several GPU types for a policy that takes one.
    """
    check_once(settings)
    _check_one_size(settings, "--set ")
    policy_of: dict[str, Policy] = {}
    names: dict[str, str] = {}
    for text in map(str.strip, policies):
        if text in policy_of:
            raise UsageError(f"--policy {text}: given twice; give one of them other settings")
        names[text], policy_of[text] = _named(text, "--policy")
    stands_for = _spot_forms(names, policy_of)
    shared = [text for text in settings if not _owner(text)]
    owned = [text for text in settings if _owner(text)]
    for text in shared:
        _check_setting(text, policy_of)
    for text in owned:
        if stands_for.get(_owner(text), _owner(text)) not in names.values():
            raise UsageError(f"--set {text!r}: {_owner(text)} is not one of the policies compared")
    _check_size(size, shared, names, policy_of)
    specs = []
    for text, policy in policy_of.items():
        values = _PolicySettings(names[text], policy, size)
        for setting in sorted(shared, key=lambda setting: _key(setting) in policy.settings):
            values.add(setting_for(setting, policy), typed(setting))
        for setting in owned:
            if stands_for.get(_owner(setting), _owner(setting)) == names[text]:
                values.add([_unowned(setting)], f"--set {setting}")
        values.add(_settings_in(text), f"--policy {text}")
        plain = _named(text, "--policy")[0]
        label = text if names[text] == plain else text.replace(plain, names[text], 1)
        if label != text and label in policy_of:
            raise UsageError(
                f"--policy {text}: is {label} where GPUs are lent; give one of the two"
            )
        specs.append(values.spec(label, are_priced=are_priced))
    return specs


def _spot_forms(names: dict[str, str], policy_of: dict[str, Policy]) -> dict[str, str]:
    """Replace policies that have a form with priorities where another one lends GPUs as spot.

    Returns:
        Replaced policy -> the one that it stands for; empty where no policy lends.
    """
    if not any(lends(policy.settings) for policy in policy_of.values()):
        return {}
    for text, name in names.items():
        if name in BESIDE_LENDING:
            names[text] = BESIDE_LENDING[name]
            policy_of[text] = find_policy(names[text])
    return BESIDE_LENDING


def read_reference(
    text: str,
    settings: Sequence[str],
    size: ClusterSize | None = None,
    *,
    is_priced: bool = False,
) -> PolicySpec:
    """Return the policy that a sweep is set against.

    What stands with it counts before ``settings``, of which it takes those that it has; but not
    `SWEPT`, which are what the sweep chooses. Other arguments are those of `read_specs`.

    Raises:
        UsageError: no such policy or setting, a setting given twice, a value of another kind, two
            sizes, a size for a policy that has none, or several GPU types.
    """
    check_once(settings)
    name, policy = _named(text, "--against")
    if size is not None and has_own_size(text):
        raise UsageError(f"{size.option} and --against {text}: give one of the two")
    _check_size(size, (), {text: name}, {text: policy})
    values = _PolicySettings(name, policy, size)
    for setting in settings:
        if _key(setting) not in SWEPT:
            values.add(setting_for(setting, policy), typed(setting))
    values.add(_settings_in(text), f"--against {text}")
    return values.spec(text, are_priced=is_priced)


def read_spec(
    name: str,
    settings: Sequence[str],
    size: ClusterSize | None = None,
    *,
    is_priced: bool = False,
) -> PolicySpec:
    """Return the one policy of a replay; arguments as those of `read_specs`.

    Raises:
        UsageError: no such policy or setting, a setting given twice, a value of another kind, two
            sizes, a size for a policy that has none, or several GPU types for one that takes one.
    """
    check_once(settings)
    _check_one_size(settings, "--set ")
    plain = name.partition(":")[0].strip()
    if policy_name(plain) in POLICIES and _settings_in(name):
        listed = " ".join(f"--set {part.strip()}" for part in _settings_in(name))
        raise UsageError(
            f"--policy {name!r}: for one policy, settings go in --set\n"
            f"  next: --policy {plain} {listed}"
        )
    policy = find_policy(name)
    name = policy.name
    _check_size(size, settings, {name: name}, {name: policy})
    values = _PolicySettings(name, policy, size)
    for text in settings:
        if isinstance(text, OptionSetting):
            _check_setting(text, {name: policy})
        values.add([text], typed(text))
    return values.spec(name, are_priced=is_priced)


class _PolicySettings:
    """What is set of a policy's settings, and by which options; the later counts."""

    def __init__(self, name: str, policy: Policy, size: ClusterSize | None) -> None:
        self.name = name
        self.policy = policy
        self.values: dict[str, Any] = {}
        self.options: dict[str, str] = {}
        self.gpu_type = ""
        if size is None:
            return
        setting = size_setting(policy)
        if setting == "cluster":
            self._check_types(size.shape, size.option)
            self.values, self.options = {"cluster": size.shape}, {"cluster": size.option}
        elif setting == "capacity":
            self._check_types(size.shape, size.option)
            self.gpu_type = size.gpu_type or ""
            if size.shape.gpus is not None:
                self.values = {"capacity": size.shape.gpus}
                self.options = {"capacity": size.option}

    def add(self, texts: Sequence[str], option: str) -> None:
        """Read the ``key=value`` texts that stand in an option."""
        is_set = option == f"--set {''.join(texts)}"
        if not is_set:
            _check_one_size(texts, f"{option}: ")
        values = parse_settings(texts, self.policy.settings, None if is_set else option)
        if values.get("cluster") is not None:
            self._check_types(values["cluster"], option)
        for size in SIZES if not values.keys().isdisjoint(SIZES) else ():  # the later size counts
            self.values.pop(size, None)
            self.options.pop(size, None)
        self.values |= values
        several = len(texts) > 1
        self.options |= {key: f"{option} ({key})" if several else option for key in values}

    def spec(self, label: str, *, are_priced: bool) -> PolicySpec:
        """Return the policy with these settings.

        Raises:
            UsageError: prices are looked up of another GPU than the cluster has.
        """
        shape = self.values.get("cluster")
        gpu_type = self.gpu_type if shape is None else shape.pools[0].gpu_type
        if are_priced and gpu_type and "gpu" in self.policy.settings:
            size = self.options.get("cluster" if shape else "capacity", "--cluster")
            priced = self.values.setdefault("gpu", gpu_type)
            if not same_gpu(priced, gpu_type):
                raise UsageError(
                    f"{size} and {self.options['gpu']}: the prices must be "
                    "those of the cluster's GPU\n  next: give one of the two"
                )
            self.options.setdefault("gpu", size)
        return PolicySpec(label, self.name, self.values, self.options, label)

    def _check_types(self, shape: ClusterShape, option: str) -> None:
        """Raise `UsageError` where a policy for one GPU type gets several."""
        if len(shape.pools) == 1 or self.policy.takes_gpu_types:
            return
        able = [name for name, policy in POLICIES.items() if policy.takes_gpu_types]
        hint = f"{', '.join(able)} take several" if able else "no policy takes several yet"
        raise UsageError(
            f"{option}: {self.name} takes one GPU type, got {', '.join(shape.gpu_types)}; {hint}"
            f"\n  next: --cluster {shape.pools[0]} for one of the types"
        )


def size_setting(policy: Policy) -> str | None:
    """Return the setting by which a policy takes the size of a cluster; None where it has none."""
    return next((name for name in ("cluster", "capacity") if name in policy.settings), None)


def has_own_size(text: str) -> bool:
    """Return whether ``NAME[:key=value,...]`` says how many GPUs the policy may hold."""
    return any(_key(setting) in ("capacity", *SIZES) for setting in _settings_in(text))


def _key(text: str) -> str:
    """Return the key of ``key=value``."""
    return text.partition("=")[0].strip()


def _check_one_size(texts: Sequence[str], where: str) -> None:
    """Raise `UsageError` where ``key=value`` texts give one cluster twice, in full and in short."""
    first: dict[str, str] = {}
    for text in texts:
        owner, _, key = _key(text).rpartition(".")
        if key not in SIZES:
            continue
        if owner in first and _key(first[owner]) != _key(text):
            both = f"{where}{first[owner]} and {where if where == '--set ' else ''}{text}"
            raise UsageError(f"{both}: both are the size of the cluster; give one of the two")
        first[owner] = text


def _named(text: str, option: str) -> tuple[str, Policy]:
    """Return the policy of ``NAME[:key=value,...]`` and its name."""
    name, colon, settings = (part.strip() for part in text.partition(":"))
    policy = find_policy(name, option)
    if colon and not settings:
        raise UsageError(f"{option} {text!r}: expected {name} or {name}:key=value")
    return policy.name, policy


def _settings_in(text: str) -> list[str]:
    """Return the settings of ``NAME[:key=value,...]``."""
    return [part for part in text.partition(":")[2].split(",") if part.strip()]


def _check_size(
    size: ClusterSize | None,
    settings: Sequence[str],
    names: Mapping[str, str],
    policy_of: Mapping[str, Policy],
) -> None:
    """Raise `UsageError` where another size stands beside ``size``, or no policy has one."""
    if size is None:
        return
    for text in settings:
        if _key(text) in ("capacity", *SIZES):
            raise UsageError(f"{size.option} and --set {text}: give one of the two")
    takers = {size_setting(policy) for policy in policy_of.values()} - {None}
    what = " and ".join(dict.fromkeys(names.values()))
    if not takers and all(has_quotas(policy.settings) for policy in policy_of.values()):
        raise UsageError(
            f"{size.option}: {what} runs jobs on the GPUs of the site\n"
            "  next: leave it out, or give another --site; gpuplan whatif changes a site"
        )
    if not takers:
        raise UsageError(f"{size.option}: {what} has no cluster and rents no workers")
    if takers == {"capacity"} and size.shape.gpus is None:
        raise UsageError(
            f"{size.option}: {what} rents workers one by one\n"
            "  next: give the most at once, such as --cluster 64"
        )


def _owner(text: str) -> str:
    """Return the policy that a setting is meant for, or nothing where it is for all."""
    return policy_name(text.partition("=")[0].strip().rpartition(".")[0])


def _unowned(text: str) -> str:
    """Return ``key=value`` of ``policy.key=value``."""
    key, _, value = text.strip().partition("=")
    return f"{key.rpartition('.')[2]}={value}"


def setting_for(text: str, policy: Policy) -> list[str]:
    """Return a shared setting as a policy takes it: as it is, by its other name, or not at all."""
    key, _, value = text.partition("=")
    for name in (key.strip(), SAME.get(key.strip())):
        if name in policy.settings:
            return [f"{name}={value}"]
    return []


def _check_setting(text: str, policies: dict[str, Policy]) -> None:
    """Raise `UsageError` where no policy takes a shared setting."""
    if "=" not in text:
        raise UsageError(f"--set {text!r}: expected key=value or policy.key=value")
    if any(setting_for(text, policy) for policy in policies.values()):
        return
    if isinstance(text, OptionSetting):
        names = ", ".join(policies)
        raise UsageError(f"{text.option} does not apply to {names}\n  next: gpuplan list policies")
    key, _, value = (part.strip() for part in text.partition("="))
    every = sorted({name for policy in policies.values() for name in policy.settings})
    raise UsageError(
        f"--set {text!r}: none of {', '.join(policies)} has a setting {key!r}"
        + (removed_hint(key, value) or f"{perhaps_set(key, every)}\n  next: gpuplan list policies")
    )
