"""A site's quotas as nested tables under Kueue's and KAI's names, the content of ``twin.toml``.

Tables: ``clusterqueue``, ``cohort``, ``localqueue``, ``flavor``, ``controller`` of Kueue,
``kaiqueue`` of KAI, and ``node``. Each entry is the specification of an object as its API has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.job_table.schema import MAX_GPUS
from gpuplan.analysis.kubernetes.gpus import clean_type, is_gpu, type_of_labels
from gpuplan.analysis.price_formats.instances import instance_models
from gpuplan.analysis.quota.amounts import Amount, gpus_of, quantity, units
from gpuplan.analysis.quota.objects import (
    COMMAND,
    SiteObject,
    site_objects,
    table_in,
    yaml_objects,
)
from gpuplan.analysis.quota.schema import (
    OLD_WORDS,
    QuotaSettings,
    ResourceQuota,
    kept,
    read_quota_settings,
)
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.site.document import dotted
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.storage.toml_source import lines, parse_toml

KUEUE, CONFIG, KAI = "kueue.x-k8s.io", "config.kueue.x-k8s.io", "scheduling.run.ai"
KINDS = {
    (KUEUE, "ClusterQueue"): "clusterqueue",
    (KUEUE, "Cohort"): "cohort",
    (KUEUE, "LocalQueue"): "localqueue",
    (KUEUE, "ResourceFlavor"): "flavor",
    (CONFIG, "Configuration"): "controller",
    (KAI, "Queue"): "kaiqueue",
    ("", "Node"): "node",
}
"""Group and kind of an object -> its table."""
TABLES = tuple(dict.fromkeys(KINDS.values()))
KAI_COMMAND = "kubectl get queues.scheduling.run.ai,nodes -o json > kai.json"


@dataclass(slots=True)
class QuotaDocument:
    """Settings of a site.

    Attributes:
        path: the file or folder.
        tables: the settings; see the module.
        notes: what the user should know, one sentence each.
        settings: the settings with types.
    """

    path: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def settings(self) -> QuotaSettings:
        """The settings with types. Raises `UsageError`."""
        return read_quota_settings(self.tables)

    @property
    def unknown(self) -> list[str]:
        """Settings that the model does not use, in words."""
        settings, texts = self.settings, []
        checks = [name for name, queue in settings.clusterqueue.items() if queue.admissionChecks]
        if checks:
            texts.append(f"admissionChecks of {listed(sorted(checks))}")
        if settings.controller.waitForPodsReady.enable:
            texts.append("waitForPodsReady")
        if settings.controller.admissionFairSharing is not None:
            texts.append("admissionFairSharing")
        topologies = sorted(name for name, kind in settings.flavor.items() if kind.topologyName)
        if topologies:
            texts.append(f"topologyName of {listed(topologies)}")
        return texts

    def flavor_type(self, flavor: str) -> str:
        """Return the GPU type of a flavor: of the labels of its nodes, else its name."""
        spec = self.tables.get("flavor", {}).get(flavor, {})
        labels = spec.get("nodeLabels", {})
        return type_of_labels(labels, instance_models()) or clean_type(flavor) or flavor

    def copy(self) -> QuotaDocument:
        """Return the same settings apart."""
        return deepcopy(self)


def read_quota_site(path: Path) -> QuotaDocument:
    """Return the settings in a dump of kubectl, in YAML, or in a folder of it.

    Raises:
        InputError: it cannot be read, or has no queue, or an object cannot be used; names the
            object, the key, what was found and what was expected.
    """
    if path.suffix == ".toml":
        return read_quota_twin(path)[0]
    return site_of_objects(path, site_objects(path))


def site_of_objects(path: Path, objects: Iterable[SiteObject]) -> QuotaDocument:
    """Return the settings of objects; others among them count for nothing.

    Raises `InputError` as `read_quota_site`.
    """
    document = site_or_none(path, objects)
    if document is None:
        raise InputError(
            path, "has no queue", expected="ClusterQueues of Kueue, or Queues of KAI",
            hint=f"{COMMAND}\n  for KAI: {KAI_COMMAND}",
        )  # fmt: skip
    return document


def site_or_none(path: Path, objects: Iterable[SiteObject]) -> QuotaDocument | None:
    """Return the settings of objects; None where no queue is among them. Raises `InputError`."""
    document = QuotaDocument(path)
    seen: dict[tuple[str, str], tuple[SiteObject, Any]] = {}
    for thing in _with_configurations(objects):
        table = KINDS.get((thing.group, thing.kind))
        if table is None:
            continue
        name = f"{thing.namespace}/{thing.name}" if table == "localqueue" else thing.name
        if table != "controller" and not thing.name:
            raise InputError(thing.file, f"a {thing.kind} has no metadata.name", expected="a name")
        spec = _spec(thing, table)
        before = seen.get((table, name))
        if before is not None and before[1] != spec:
            raise InputError(
                thing.file, f"{thing.kind} {name} is described otherwise in {before[0].file}",
                expected="each object once", hint="give a folder with one configuration",
            )  # fmt: skip
        seen[table, name] = (thing, spec)
        if table == "controller":
            document.tables[table] = spec
        else:
            document.tables.setdefault(table, {})[name] = spec
    if not document.tables.get("clusterqueue") and not document.tables.get("kaiqueue"):
        return None
    _check(document)
    return document


def _with_configurations(objects: Iterable[SiteObject]) -> Iterable[SiteObject]:
    """Yield the objects, and Kueue's configuration out of ConfigMaps."""
    for thing in objects:
        if thing.kind != "ConfigMap":
            yield thing
            continue
        for text in table_in(thing.load(), "data").values():
            if isinstance(text, str) and CONFIG in text:
                for inner in yaml_objects(thing.file, text.encode()):
                    if inner.group == CONFIG:
                        yield inner


def _spec(thing: SiteObject, table: str) -> Any:
    """Return what the model uses of an object. Raises `InputError`."""
    content = thing.load()
    spec = dict(content) if table == "controller" else dict(table_in(content, "spec"))
    if table == "clusterqueue":
        spec = _of_v1beta1(spec)
    elif table == "cohort" and "parent" in spec and "parentName" not in spec:
        spec["parentName"] = spec["parent"]
    elif table == "node":
        spec = _node(thing, content)
    try:
        return kept(table, spec)
    except UsageError as error:
        where = f"{table}.it."
        text = str(error).replace(where, "").replace(f"{table}.it", "spec")
        prefix = f"{thing.kind} {thing.name}".strip()
        raise InputError(thing.file, f"{prefix}: {'spec.' if where in str(error) else ''}{text}",
                         hint=COMMAND if thing.group == KUEUE else None) from None  # fmt: skip


def _of_v1beta1(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a ClusterQueue under the names of v1beta2."""
    if "cohort" in spec and "cohortName" not in spec:
        spec["cohortName"] = spec["cohort"]
    fungibility = spec.get("flavorFungibility")
    if isinstance(fungibility, dict):
        spec["flavorFungibility"] = {
            key: OLD_WORDS.get(value, value) if isinstance(value, str) else value
            for key, value in fungibility.items()
        }
    return spec


def _node(thing: SiteObject, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return GPUs and GPU type of a node."""
    status = table_in(content, "status")
    amounts = table_in(status, "allocatable") or table_in(status, "capacity")
    gpus = 0
    for resource, amount in amounts.items():
        if is_gpu(resource) and "mig-" not in resource:
            try:
                gpus += units(quantity(amount), resource, rounds_up=False)
            except ValueError as error:
                raise InputError(
                    thing.file, f"Node {thing.name}: status.allocatable.{resource}: found "
                    f"{amount!r}", expected=str(error),
                ) from None  # fmt: skip
    labels = table_in(table_in(content, "metadata"), "labels")
    words = {key: value for key, value in labels.items() if isinstance(value, str)}
    kind = type_of_labels(words, instance_models())
    return {"gpus": gpus, **({"type": kind} if kind else {})}


def _check(document: QuotaDocument) -> None:
    """Check what several objects say together. Raises `InputError`; notes what is left out."""
    settings = document.settings
    for name, local in settings.localqueue.items():
        if local.clusterQueue not in settings.clusterqueue and settings.clusterqueue:
            document.notes.append(
                f"LocalQueue {name} is of the ClusterQueue {local.clusterQueue}, which is not given"
            )
    for name, queue in settings.clusterqueue.items():
        _check_groups(document.path, f"ClusterQueue {name}", queue.resourceGroups)
    for name, cohort in settings.cohort.items():
        _check_groups(document.path, f"Cohort {name}", cohort.resourceGroups)
    if cohorts := cohort_ring(settings):
        raise _ring_error(document.path, "Cohort", "parentName", cohorts)
    kai = {name: queue.parentQueue for name, queue in settings.kaiqueue.items()}
    if queues := _ring(kai):
        raise _ring_error(document.path, "Queue", "parentQueue", queues)
    for name, parent in kai.items():
        if parent and parent not in kai:
            raise InputError(
                document.path, f"Queue {name}: spec.parentQueue: found {parent!r}",
                expected=f"one of {', '.join(sorted(kai))}", hint=KAI_COMMAND,
            )  # fmt: skip
    stopped = [name for name, queue in settings.clusterqueue.items() if queue.stopPolicy != "None"]
    if stopped:
        document.notes.append(
            f"{counted(len(stopped), 'ClusterQueue')} with a stopPolicy admit nothing: "
            f"{listed(sorted(stopped))}"
        )


def _check_groups(path: Path, owner: str, groups: Any) -> None:
    """Check resource groups: a resource in one group, a quota for each, and amounts in range."""
    covered: set[str] = set()
    for at, group in enumerate(groups):
        where = f"{owner}: spec.resourceGroups[{at}]"
        if twice := covered & set(group.coveredResources):
            raise InputError(
                path, f"{where}.coveredResources: found {min(twice)!r}, which another group covers",
                expected="each resource in one group",
            )  # fmt: skip
        covered |= set(group.coveredResources)
        for flavor in group.flavors:
            names = [resource.name for resource in flavor.resources]
            if set(names) != set(group.coveredResources) or len(names) != len(set(names)):
                raise InputError(
                    path, f"{where}: flavor {flavor.name} has quotas of "
                    f"{', '.join(names) or 'nothing'}",
                    expected=f"one of each of {', '.join(group.coveredResources) or 'nothing'}",
                )  # fmt: skip
            for resource in flavor.resources:
                _check_amounts(path, f"{where}: flavor {flavor.name}", resource)


def _check_amounts(path: Path, where: str, resource: ResourceQuota) -> None:
    """Refuse quotas of more GPUs than a cluster has, and quotas and limits of parts of a GPU.

    Raises `InputError`; also for any amount that is too large.
    """
    quota = resource.nominalQuota.value
    if quota * gpus_of(resource.name) > MAX_GPUS:
        raise InputError(
            path, f"{where}, {resource.name}: nominalQuota is {float(quota):,.0f}",
            expected=f"a number of GPUs up to {MAX_GPUS:,.0f}",
        )  # fmt: skip
    for key in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        amount: Amount | None = getattr(resource, key)
        if amount is None:
            continue
        if is_gpu(resource.name) and amount.value.denominator != 1:
            raise InputError(
                path, f"{where}, {resource.name}: {key} is {float(amount.value):g}",
                expected="a whole number of GPUs",
            )  # fmt: skip
        try:
            units(amount.value, resource.name, rounds_up=False)
        except ValueError as error:
            raise InputError(
                path, f"{where}, {resource.name}: {key} is too large", expected=str(error)
            ) from None


def cohort_ring(settings: QuotaSettings) -> list[str]:
    """Return cohorts of which each is above the one before, the first once more; none in a tree."""
    return _ring({name: cohort.parentName for name, cohort in settings.cohort.items()})


def _ring(parents: Mapping[str, str]) -> list[str]:
    for name in parents:
        seen, above = [name], parents[name]
        while above:
            if above in seen:
                return [*seen, above]
            seen.append(above)
            above = parents.get(above, "")
    return []


def _ring_error(path: Path, kind: str, key: str, ring: Sequence[str]) -> InputError:
    return InputError(
        path, f"{kind} {ring[0]}: spec.{key}: a ring, {' -> '.join(ring)}", expected="a tree",
        hint=f"take spec.{key} out of one of them",
    )  # fmt: skip


A_TWIN = "a file that gpuplan calibrate wrote of a site of Kueue"
CALIBRATE = "write it again: gpuplan calibrate kueue.json -o twin.toml"


def read_quota_twin(path: Path) -> tuple[QuotaDocument, CalibrationTable]:
    """Return the settings of a file of `quota_twin_text`, and its calibration.

    Raises:
        InputError: it cannot be read, is not TOML, has no queues, or has a key or value that
            cannot be used; with its line.
    """
    text, tables = parse_toml(path, read_unpacked(path), expected=A_TWIN, hint=CALIBRATE)
    try:
        settings = read_quota_settings(tables)
    except UsageError as error:
        rows = {dotted(*keys): row for keys, row in lines(text)}
        where = re.split(r"[:\[]", str(error))[0]
        raise InputError(path, str(error), row=rows.get(where)) from error
    if not settings.clusterqueue and not settings.kaiqueue:
        raise InputError(path, "has no queues", expected=A_TWIN, hint=CALIBRATE)
    tables.pop("calibration", None)
    document = QuotaDocument(path, tables)
    _check(document)
    return document, settings.calibration


def is_quota_twin(path: Path) -> bool:
    """Return whether a file of settings is of a site with quotas. Raises `InputError`."""
    _, tables = parse_toml(
        path, read_unpacked(path), expected="settings that gpuplan calibrate wrote",
        hint="write them again: gpuplan calibrate LOG -o twin.toml",
    )  # fmt: skip
    return bool(tables.get("clusterqueue") or tables.get("kaiqueue"))
