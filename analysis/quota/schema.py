"""The one schema of a site with quotas: tables, keys and values under Kueue's and KAI's names.

Objects of Kubernetes, ``twin.toml`` and changes of a what-if all pass through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.quota.amounts import Amount, AmountLimit, Seconds
from gpuplan.analysis.site.schema import CalibrationTable

MESSAGE = re.compile(r"(?P<text>.*?)(?: - at `(?P<keys>key in )?\$(?P<path>.*)`)?", re.DOTALL)
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
WORDS = {
    "int": "a whole number", "float": "a number", "str": "text", "object": "a table",
    "array": "a list", "bool": "true or false",
}  # fmt: skip
OLD_WORDS = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Values of a ClusterQueue's flavorFungibility in v1beta1 -> those of v1beta2."""


class QuotaTable(Struct, omit_defaults=True, frozen=True):
    """A part of an object; keys that the model does not use are left out."""


class ResourceQuota(QuotaTable, frozen=True):
    """Quota of one resource of a flavor."""

    name: str
    nominalQuota: Amount = Amount(Fraction(0))
    borrowingLimit: Amount | None = None
    lendingLimit: Amount | None = None


class FlavorQuotas(QuotaTable, frozen=True):
    """Quotas of one flavor."""

    name: str
    resources: list[ResourceQuota] = []


class ResourceGroup(QuotaTable, frozen=True):
    """Resources that share their flavor, and the flavors in order."""

    coveredResources: list[str] = []
    flavors: list[FlavorQuotas] = []


class BorrowWithinCohort(QuotaTable, frozen=True):
    """Whether a queue may evict while it borrows."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    maxPriorityThreshold: int | None = None


class QueuePreemption(QuotaTable, frozen=True):
    """Whom a queue may evict."""

    withinClusterQueue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaimWithinCohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrowWithinCohort: BorrowWithinCohort = BorrowWithinCohort()


class FlavorFungibility(QuotaTable, frozen=True):
    """When a queue looks at the next flavor."""

    whenCanBorrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    whenCanPreempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] = (
        "BorrowingOverPreemption"
    )


class FairSharing(QuotaTable, frozen=True):
    """The weight of a queue or a cohort."""

    weight: Amount = Amount(Fraction(1))


class ClusterQueue(QuotaTable, frozen=True):
    """A queue with quotas."""

    cohortName: str = ""
    resourceGroups: list[ResourceGroup] = []
    queueingStrategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    preemption: QueuePreemption = QueuePreemption()
    flavorFungibility: FlavorFungibility = FlavorFungibility()
    fairSharing: FairSharing = FairSharing()
    stopPolicy: Literal["None", "Hold", "HoldAndDrain"] = "None"
    admissionChecks: list[str] = []


class Cohort(QuotaTable, frozen=True):
    """Queues and cohorts that share quotas."""

    parentName: str = ""
    resourceGroups: list[ResourceGroup] = []
    fairSharing: FairSharing = FairSharing()


class LocalQueue(QuotaTable, frozen=True):
    """A queue of a namespace; its name is ``namespace/name``."""

    clusterQueue: str
    stopPolicy: Literal["None", "Hold", "HoldAndDrain"] = "None"


class Taint(QuotaTable, frozen=True):
    """A taint of the nodes of a flavor."""

    key: str = ""
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(QuotaTable, frozen=True):
    """What a flavor or a pod tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ResourceFlavor(QuotaTable, frozen=True):
    """A kind of node."""

    nodeLabels: dict[str, str] = {}
    nodeTaints: list[Taint] = []
    tolerations: list[Toleration] = []
    topologyName: str = ""


class ControllerFairSharing(QuotaTable, frozen=True):
    """Fair sharing of the controller; where it stands it is on."""

    enable: bool = True
    preemptionStrategies: tuple[
        Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...
    ] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


class WaitForPodsReady(QuotaTable, frozen=True):
    """Whether the controller evicts workloads whose pods are not ready."""

    enable: bool = False
    timeout: Seconds = Seconds(300.0)


class Controller(QuotaTable, frozen=True):
    """Kueue's configuration."""

    fairSharing: ControllerFairSharing | None = None
    waitForPodsReady: WaitForPodsReady = WaitForPodsReady()
    admissionFairSharing: dict[str, Any] | None = None


class KaiResource(QuotaTable, frozen=True):
    """What a queue of KAI has of a resource; -1 is unlimited."""

    quota: AmountLimit = AmountLimit(Fraction(0))
    limit: AmountLimit = AmountLimit(None)
    overQuotaWeight: Amount = Amount(Fraction(1))


class KaiResources(QuotaTable, frozen=True):
    """Resources of a queue of KAI."""

    gpu: KaiResource = KaiResource()
    cpu: KaiResource | None = None
    memory: KaiResource | None = None


class KaiQueueSpec(QuotaTable, frozen=True):
    """A queue of KAI."""

    parentQueue: str = ""
    priority: int = 100
    resources: KaiResources = KaiResources()
    preemptMinRuntime: Seconds | None = None
    reclaimMinRuntime: Seconds | None = None


class KubeNode(QuotaTable, frozen=True):
    """GPUs of a node."""

    gpus: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    type: str = ""


class QuotaSettings(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All settings of a site; tables by the name of their object."""

    clusterqueue: dict[str, ClusterQueue] = {}
    cohort: dict[str, Cohort] = {}
    localqueue: dict[str, LocalQueue] = {}
    flavor: dict[str, ResourceFlavor] = {}
    controller: Controller = Controller()
    kaiqueue: dict[str, KaiQueueSpec] = {}
    node: dict[str, KubeNode] = {}
    calibration: CalibrationTable = CalibrationTable()


def _hook(kind: Any, value: Any) -> Any:
    return kind.read(value)


def read_quota_settings(tables: Mapping[str, Any]) -> QuotaSettings:
    """Return the settings of nested tables.

    Raises:
        UsageError: one cannot be used; names its key, what was found and what is expected.
    """
    try:
        return msgspec.convert(tables, QuotaSettings, strict=False, dec_hook=_hook)
    except msgspec.ValidationError as error:
        raise UsageError(_explained(tables, str(error))) from None


def kept(name: str, spec: Mapping[str, Any]) -> Any:
    """Return the part of an object's specification that the model uses, of the table ``name``.

    Values stay as they are written. Raises `UsageError` as `read_quota_settings`.
    """
    kind = _kind_of(get_type_hints(QuotaSettings)[name])
    read_quota_settings({name: {"it": spec} if name != "controller" else spec})
    return _of_kind(spec, kind)


def check_key(keys: Sequence[str]) -> None:
    """Refuse a path of keys that no object has, without the names of objects in tables.

    Raises:
        UsageError: with the nearest key.
    """
    kind: Any = QuotaSettings
    for at, key in enumerate(keys):
        kind = _kind_of(kind, opens=False)
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
            continue
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            raise UsageError(f"{'.'.join(keys[:at])}: is a value and has no {key}")
        names = kind.__struct_fields__
        if key not in names:
            where = ".".join(keys[:at])
            raise UsageError(
                f"{where}: has no {key}{perhaps(key, names, 0.4)}; expected one of "
                f"{', '.join(names)}"
            )
        kind = get_type_hints(kind)[key]


def _of_kind(value: Any, kind: Any) -> Any:
    """Return a value without the keys that a structure does not have."""
    kind = _kind_of(kind, opens=False)
    if get_origin(kind) is list and isinstance(value, list):
        return [_of_kind(item, get_args(kind)[0]) for item in value]
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, Mapping):
        hints = get_type_hints(kind)
        return {
            key: _of_kind(value[key], hints[key])
            for key in hints
            if key in value and value[key] is not None
        }
    return value


def _kind_of(kind: Any, *, opens: bool = True) -> Any:
    """Return a type without None; with ``opens`` that of the values of a table by name."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    options = [part for part in get_args(kind) if part is not type(None)]
    if len(options) < len(get_args(kind)):
        kind = options[0]
    if opens and get_origin(kind) is dict:
        return get_args(kind)[1]
    return kind


def _explained(tables: Mapping[str, Any], message: str) -> str:
    """Return a message of msgspec with the key, what was found, and what is expected."""
    match = MESSAGE.fullmatch(message)
    assert match is not None
    text, steps = match["text"], [a or b for a, b in STEP.findall(match["path"] or "")]
    spots = list(_spots(tables, QuotaSettings, steps))
    if not spots:
        return message
    where, value, kind = next((spot for spot in spots if _is_bad(spot)), spots[0])
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        names = kind.__struct_fields__
        near = perhaps(unknown[1], names, 0.5)
        return f"{unknown[1]}: unknown table{near}; expected one of {', '.join(names)}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"{where}: has no {missing[1]}"
    if get_origin(kind) is Literal:
        expected = " or ".join(map(str, get_args(kind)))
        near = perhaps(str(value), map(str, get_args(kind)))
        return f"{where}: found {value!r}{near}, expected {expected}"
    if kinds := re.fullmatch(r"Expected `(.*?)(?: \| null)?`(?:, got .*)?( [<>]=? .*)?", text):
        text = WORDS.get(kinds[1], kinds[1]) + (kinds[2] or "")
    return f"{where}: found {str(value)[:80]!r}, expected {text}"


Spot = tuple[str, Any, Any]


def _is_bad(spot: Spot) -> bool:
    """Return whether the value at a spot is what a reader refuses."""
    try:
        msgspec.convert(spot[1], spot[2], strict=False, dec_hook=_hook)
    except msgspec.ValidationError:
        return True
    return False


def _spots(value: Any, kind: Any, steps: Sequence[str], where: str = "") -> Any:
    """Yield (dotted key, value, type) at a path; ``...`` stands for any key or position."""
    kind = _kind_of(kind, opens=False)
    if not steps:
        yield where, value, kind
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, Mapping):
        inner = None
        if isinstance(kind, type) and issubclass(kind, Struct):
            inner = get_type_hints(kind, include_extras=True).get(step)
        elif get_origin(kind) is dict:
            inner = get_args(kind)[1]
        for key in value if step == "..." else [step] * (step in value):
            dotted = f"{where}.{key}" if where else str(key)
            yield from _spots(value[key], inner, rest, dotted)
    elif isinstance(value, list):
        inner = get_args(kind)[0] if get_args(kind) else Any
        places = range(len(value)) if step == "..." else [int(step)]
        for at in (place for place in places if place < len(value)):
            yield from _spots(value[at], inner, rest, f"{where}[{at}]")
