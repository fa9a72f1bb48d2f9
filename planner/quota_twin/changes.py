"""Changes of a site of Kueue as people make them: quotas, limits, weights, policies, nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.quota.amounts import gpus_of
from gpuplan.analysis.quota.gpu_quotas import gpu_quotas, nominal_gpus
from gpuplan.analysis.quota.kueue_site import QuotaDocument, cohort_ring, read_quota_site
from gpuplan.planner.quota_twin.set_values import (
    EXAMPLE,
    amount_text,
    limits_nothing,
    set_value,
)

SET_TABLES = ("clusterqueue", "cohort", "localqueue", "flavor", "controller")
USUAL_GPUS_PER_NODE = 8
NEXT_STEP = "next:"
ADDED_NODES = re.compile(r"(?:(?P<kind>[^=@]+)=)?(?P<count>\d{1,6})(?:@(?P<who>.+))?")


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """One change to replay.

    Attributes:
        name: what it is called.
        apply: changes the settings in place, and returns notes on how it was read.
        load: factor of the rate at which workloads come.
    """

    name: str
    apply: Callable[[QuotaDocument], tuple[str, ...]] | None = None
    load: float = 1.0

    def changed(self, document: QuotaDocument) -> tuple[QuotaDocument, tuple[str, ...]]:
        """Return the settings with the change, and how it was read.

        Raises:
            UsageError: the site has not what it names, or cannot take it.
        """
        copy = document.copy()
        try:
            notes = () if self.apply is None else self.apply(copy)
        except UsageError as error:
            raise _with_next_step(error) from error
        try:
            settings = copy.settings
        except UsageError as error:
            raise _with_next_step(UsageError(f"--{self.name}: {error}")) from error
        if ring := cohort_ring(settings):
            raise UsageError(
                f"--{self.name}: puts cohorts in a ring, {' -> '.join(ring)}; expected a tree\n"
                f"  next: give cohort {ring[0]} another parentName, or leave this change out"
            )
        return copy, notes


def _with_next_step(error: UsageError) -> UsageError:
    if NEXT_STEP in str(error):
        return error
    return UsageError(
        f"{error}\n  {NEXT_STEP} names and values of today are in the file that gpuplan calibrate "
        "LOG -o twin.toml writes"
    )


def combined_changes(changes: Iterable[QuotaChange]) -> QuotaChange:
    """Return all changes as one.

    Raises:
        UsageError: a key is set twice, so that the first value would count for nothing.
    """
    changes = list(changes)
    seen: set[str] = set()
    for change in changes:
        key, _, value = (part.strip() for part in change.name.partition("="))
        if key.startswith("set ") and key in seen and value[:1] not in ("+", "-"):
            raise UsageError(
                f"--{change.name}: the key is set twice, and the changes are made together\n"
                "  next: leave one out, or leave out --together"
            )
        seen.add(key)
    load = 1.0
    for change in changes:
        load *= change.load

    def apply(document: QuotaDocument) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        for change in changes:
            notes += () if change.apply is None else change.apply(document)
        return notes

    return QuotaChange(" + ".join(change.name for change in changes), apply, load)


def set_quota_value(text: str) -> QuotaChange:
    """Return the change ``KEY=VALUE``, for example ``clusterqueue.team-a.nominalQuota=16``.

    Raises:
        UsageError: it is not written so.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    table, _, rest = key.partition(".")
    if not equals or not value or not rest:
        raise UsageError(f"--set must be like {EXAMPLE}, got {text!r}")
    if table not in SET_TABLES:
        raise UsageError(
            f"--set {text}: {table} cannot be set{perhaps(table, SET_TABLES)}; expected one of "
            f"{', '.join(SET_TABLES)}"
        )

    def apply(document: QuotaDocument) -> tuple[str, ...]:
        set_value(document, text, table, rest, value)
        return limits_nothing(document, text)

    return QuotaChange(f"set {text}", apply)


def new_site(path: Path | str) -> QuotaChange:
    """Return the change to the queues of another configuration.

    Raises:
        InputError: it cannot be used.
    """
    path = Path(path)
    return to_site(f"site {path.name or path}", read_quota_site(path))


def to_site(name: str, new: QuotaDocument) -> QuotaChange:
    """Return the change to the queues and cohorts of other settings.

    What the other settings do not have at all stays as it is: LocalQueues, ResourceFlavors, Cohorts
    and the controller may lie elsewhere.
    """

    def apply(document: QuotaDocument) -> tuple[str, ...]:
        kept = [table for table in document.tables if not new.tables.get(table)]
        for table, objects in new.copy().tables.items():
            if objects:
                document.tables[table] = objects
        document.notes += [note for note in new.notes if note not in document.notes]
        kept = [table for table in kept if table in ("cohort", "controller")]
        if not kept:
            return ()
        return (f"{name}: has no {' and no '.join(kept)}, so that of today stays",)

    return QuotaChange(name, apply)


def add_quota_nodes(text: str, sign: int = 1) -> QuotaChange:
    """Return the change ``[TYPE=]N[@QUEUE]``: so many nodes more, or less, and their quota.

    The quota goes to the ClusterQueue or Cohort that is named, else to all in proportion to what
    they have. Raises `UsageError`.
    """
    option = "add-nodes" if sign > 0 else "remove-nodes"
    match = ADDED_NODES.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--{option} must be like 4, h100=4 or h100=4@team-a, whose quota changes, got {text!r}"
        )
    count, kind, who = int(match["count"]), match["kind"] or "", match["who"] or ""

    def apply(document: QuotaDocument) -> tuple[str, ...]:
        return _change_nodes(document, f"{option} {text}", sign * count, kind.strip(), who.strip())

    return QuotaChange(f"{option} {text}", apply)


def _change_nodes(
    document: QuotaDocument, name: str, count: int, kind: str, who: str
) -> tuple[str, ...]:
    """Change the nominal quotas of a flavor by the GPUs of nodes. Raises `UsageError`."""
    flavors = dict.fromkeys(flavor for _, flavor, _ in gpu_quotas(document))
    meant = [
        flavor for flavor in flavors
        if kind in ("", flavor) or document.flavor_type(flavor).lower() == kind.lower()
    ]  # fmt: skip
    if len(meant) != 1:
        raise UsageError(
            f"--{name}: {'several flavors' if meant else f'no flavor {kind}'}"
            f"{perhaps(kind, flavors) if kind else ''}; expected TYPE=N with one of "
            f"{listed(list(flavors)) or 'none'}"
        )
    flavor = meant[0]
    quotas = [(owner, quota) for owner, name, quota in gpu_quotas(document) if name == flavor]
    owners = list(dict.fromkeys(owner for owner, _ in quotas))
    quotas = [(owner, quota) for owner, quota in quotas if who in ("", owner)]
    if not quotas:
        raise UsageError(
            f"--{name}: {who} has no quota of {flavor}{perhaps(who, owners)}; expected one of "
            f"{listed(owners)}"
        )
    each, how = _gpus_per_node(document, flavor)
    total = sum((nominal_gpus(quota) for _, quota in quotas), Fraction(0))
    more = Fraction(count * each)
    if more < -total:
        raise UsageError(f"--{name}: takes {-more} GPUs of {flavor}, the quotas have {total}")
    parts = [
        (nominal_gpus(quota) / total if total else Fraction(1, len(quotas))) * more
        for _, quota in quotas
    ]
    whole_gpus = [part.numerator // part.denominator for part in parts]
    left = int(more) - sum(whole_gpus)
    order = sorted(range(len(parts)), key=lambda at: (whole_gpus[at] - parts[at], at))
    for at in order[:left]:
        whole_gpus[at] += 1
    for (_, quota), gpus in zip(quotas, whole_gpus, strict=True):
        worth = gpus_of(quota["name"])
        quota["nominalQuota"] = amount_text((nominal_gpus(quota) + gpus) / worth)
    changes = [
        f"{owner} {gpus:+d}" for (owner, _), gpus in zip(quotas, whole_gpus, strict=True) if gpus
    ]
    return (
        f"{name}: {counted(abs(count), 'node')} of {each} GPUs ({how}) change the nominal quotas "
        f"of {flavor}: {listed(changes)}"
        + ("" if who else f"; --{name}@QUEUE changes that of one alone"),
    )


def _gpus_per_node(document: QuotaDocument, flavor: str) -> tuple[int, str]:
    """Return the GPUs of a node of a flavor, and where the number comes from."""
    nodes = document.settings.node.values()
    kind = document.flavor_type(flavor)
    sizes = [node.gpus for node in nodes if node.gpus and kind in ("", node.type)]
    sizes = sizes or [node.gpus for node in nodes if node.gpus]
    if sizes:
        return max(set(sizes), key=lambda size: (sizes.count(size), size)), "as those of the site"
    return USUAL_GPUS_PER_NODE, "assumed: the dump has no nodes"


def scale_quota_load(factor: float) -> QuotaChange:
    """Return the change of the rate at which workloads come. Raises `UsageError`."""
    if not 0.01 <= factor <= 100:
        raise UsageError(f"--scale-load must be from 0.01 to 100, got {factor:g}")
    return QuotaChange(f"scale-load {factor:g}", load=factor)


READERS: dict[str, Callable[[str], QuotaChange]] = {
    "set": set_quota_value,
    "site": new_site,
    "add-nodes": add_quota_nodes,
    "remove-nodes": lambda text: add_quota_nodes(text, -1),
    "scale-load": lambda text: scale_quota_load(float(text)),
}
"""Name of a change of `gpuplan whatif` -> what reads its value for a site of Kueue."""


def read_quota_change(name: str, value: str) -> QuotaChange:
    """Return a change of `READERS`. Raises `InputError` or `UsageError`."""
    if name not in READERS:
        options = ", ".join(f"--{other}" for other in READERS)
        raise UsageError(f"--{name}: is for Slurm sites; of a site of Kueue give {options}")
    return READERS[name](value)
