"""One value of a site of Kueue as ``--set KEY=VALUE`` writes it: quotas, limits, and other keys."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.schema import MAX_GPUS
from gpuplan.analysis.kubernetes.gpus import is_gpu
from gpuplan.analysis.quota.amounts import MOST, gpus_of, quantity
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.schema import check_key
from gpuplan.planner.quota_twin.room import gpu_resources

QUOTA_KEYS = ("nominalQuota", "borrowingLimit", "lendingLimit")
SHORT = {"weight": "fairSharing.weight", "cohort": "cohortName", "parent": "parentName"}
"""Short forms of keys."""
NONE = ("none", "unlimited")
EXAMPLE = "clusterqueue.team-a.nominalQuota=16"


def set_value(document: QuotaDocument, text: str, table: str, rest: str, value: str) -> None:
    """Set one value of a table, of the key ``rest``. Raises `UsageError`."""
    if table == "controller":
        _check(text, ["controller", *rest.split(".")])
        _put(document.tables.setdefault("controller", {}), rest.split("."), _word(value))
        return
    names = set(document.tables.get(table, {}))
    if table == "cohort":
        names |= cohort_names(document)
    name = next(
        (name for name in sorted(names, key=len, reverse=True) if rest.startswith(f"{name}.")), None
    )
    if name is None and rest in names:
        raise UsageError(
            f"--set {text}: names no key of {table} {rest}; expected one like {EXAMPLE}"
        )
    if name is None:
        word = rest.partition(".")[0]
        raise UsageError(
            f"--set {text}: no {table} {word}{perhaps(word, names)}; expected one of "
            f"{listed(sorted(names)[:20]) or 'none'}"
        )
    key = rest[len(name) + 1 :]
    key = SHORT.get(key, key)
    spec = document.tables.setdefault(table, {}).setdefault(name, {})
    first, _, flavor = key.partition(".")
    flavors = sorted({flavor for flavor, _ in gpu_resources(document)})
    if first not in QUOTA_KEYS and key in flavors:
        first, flavor = "nominalQuota", key
    if first in QUOTA_KEYS and table in ("clusterqueue", "cohort"):
        quota = _quota_of(document, text, table, name, spec, flavor)
        _set_amount(text, quota, first, value)
        return
    if table in ("clusterqueue", "cohort") and (meant := perhaps(first, QUOTA_KEYS)):
        raise UsageError(f"--set {text}: {table} {name} has no {first}{meant}")
    _check(text, [table, name, *key.split(".")])
    queues = document.tables.get("clusterqueue", {})
    if key == "clusterQueue" and value not in queues:
        raise UsageError(
            f"--set {text}: no clusterqueue {value}{perhaps(value, queues)}; expected one of "
            f"{listed(sorted(queues)[:20]) or 'none'}"
        )
    _put(spec, key.split("."), _word(value))


def limits_nothing(document: QuotaDocument, text: str) -> tuple[str, ...]:
    """Return what to say of a limit of a queue or cohort with nobody to borrow from."""
    key = text.partition("=")[0]
    table, _, rest = key.partition(".")
    owners = {"clusterqueue": "cohortName", "cohort": "parentName"}
    if table not in owners or (".borrowingLimit" not in rest and ".lendingLimit" not in rest):
        return ()
    name = rest.partition(".borrowingLimit")[0].partition(".lendingLimit")[0]
    if document.tables.get(table, {}).get(name, {}).get(owners[table]):
        return ()
    return (f"set {text}: {table} {name} has no {owners[table]}, so it limits nothing",)


def _check(text: str, keys: list[str]) -> None:
    try:
        check_key(keys)
    except UsageError as error:
        raise UsageError(f"--set {text}: {error}") from error


def cohort_names(document: QuotaDocument) -> set[str]:
    """Return the cohorts that are described, or that only others name."""
    cohorts = document.tables.get("cohort", {})
    named = [queue.get("cohortName") for queue in document.tables.get("clusterqueue", {}).values()]
    named += [cohort.get("parentName") for cohort in cohorts.values()]
    return {name for name in named if name} | set(cohorts)


def _put(table: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = table.get(key)
        table[key] = inner = dict(inner) if isinstance(inner, Mapping) else {}
        table = inner
    table[keys[-1]] = value


def _word(value: str) -> Any:
    """Return a value as it may stand in an object: true, false, or a text."""
    return {"true": True, "false": False}.get(value, value)


def _quota_of(
    document: QuotaDocument, text: str, table: str, name: str, spec: dict[str, Any], flavor: str
) -> dict[str, Any]:
    """Return the quota of a flavor, its GPUs unless a resource is named; a cohort may get one.

    Raises `UsageError` where there is no such quota, or several may be meant.
    """
    rows = [
        (kind["name"], resource["name"], resource)
        for group in spec.get("resourceGroups", ())
        for kind in group.get("flavors", ())
        for resource in kind.get("resources", ())
    ]
    meant: list[tuple[str, str, dict[str, Any]]] = [
        row for row in rows
        if (is_gpu(row[1]) and flavor in ("", row[0])) or flavor == f"{row[0]}.{row[1]}"
        or (flavor == row[1])
    ]  # fmt: skip
    if len(meant) == 1:
        return meant[0][2]
    if not meant and table == "cohort":
        pairs = [pair for pair in gpu_resources(document) if flavor in ("", pair[0])]
        if len(pairs) == 1:
            quota: dict[str, Any] = {"name": pairs[0][1], "nominalQuota": "0"}
            kind = {"name": pairs[0][0], "resources": [quota]}
            group = {"coveredResources": [pairs[0][1]], "flavors": [kind]}
            spec.setdefault("resourceGroups", []).append(group)
            return quota
        rows = [(*pair, {}) for pair in gpu_resources(document)]
    choices = [row[0] if is_gpu(row[1]) else f"{row[0]}.{row[1]}" for row in rows]
    if meant:
        choices = [row[0] for row in meant]
    if not choices:
        raise UsageError(f"--set {text}: {table} {name} has no quota of GPUs to change")
    what = f"no quota of {flavor}" if flavor and not meant else "several flavors have GPUs"
    key = text.partition("=")[0].removesuffix(f".{flavor}") if flavor else text.partition("=")[0]
    raise UsageError(
        f"--set {text}: {table} {name}: {what}{perhaps(flavor, choices) if flavor else ''}; "
        f"expected {key}.FLAVOR with one of {listed(list(dict.fromkeys(choices))) or 'none'}"
    )


def _set_amount(text: str, quota: dict[str, Any], key: str, value: str) -> None:
    """Set a nominal quota or a limit; ``+8`` and ``-8`` are added. Raises `UsageError`."""
    if value.lower() in NONE and key != "nominalQuota":
        quota.pop(key, None)
        return
    try:
        amount = quantity(value.lstrip("+"))
        if value[0] in "+-":
            before = quota.get(key)
            if before is None:
                raise UsageError(f"--set {text}: {key} is unlimited today, so nothing can be added")
            amount += quantity(before)
        if amount < 0:
            raise UsageError(
                f"--set {text}: leaves {key} at {float(amount):g}; expected at least 0"
            )
    except ValueError as error:
        expected = f"{error}, or +8 for 8 more"
        raise UsageError(f"--set {text}: found {value!r}, expected {expected}") from None
    if amount > MOST:
        raise UsageError(f"--set {text}: found {value!r}, expected an amount up to {MOST:,}")
    if amount * gpus_of(quota["name"]) > MAX_GPUS:
        raise UsageError(
            f"--set {text}: found {value!r}, expected a number of GPUs up to {MAX_GPUS:,.0f}"
            + ("" if key == "nominalQuota" else ", or none")
        )
    if is_gpu(quota["name"]) and amount.denominator != 1:
        raise UsageError(
            f"--set {text}: {key} must be a whole number of {quota['name']}, got "
            f"{float(amount):g}; Kubernetes has no parts of a device"
        )
    quota[key] = amount_text(amount)


def amount_text(amount: Fraction) -> str:
    """Return an amount as Kubernetes writes it."""
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{-(-amount.numerator * 1000 // amount.denominator)}m"
