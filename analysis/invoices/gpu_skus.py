"""Which GPUs a charge is of, and how many GPU-hours a unit of its quantity has.

A SKU that the user names is of that type. Else an instance type that stands whole in a text of the
charge says type and number; a bare ``p5`` is the name of anything. Else it is the longest GPU type
whose letters and digits are in the SKU. Where the SKU is the name of a node, only whole parts of
the name count. What is not measured in time is no GPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from gpuplan.analysis.job_table.gpu_names import UNNAMED, gpu_models, gpu_name, same_gpu
from gpuplan.analysis.job_table.schema import MAX_GPUS
from gpuplan.analysis.price_formats.instances import instances

INSTANCE = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"(?P<aws>[a-z][a-z0-9-]*\.(?:nano|micro|small|medium|large|\d*xlarge|metal)(?:-[a-z0-9]+)?)"
    r"|(?P<azure>Standard_[A-Z]+\d+[A-Za-z0-9_-]*)"
    r"|(?P<google>[a-z]\d[a-z]?-[a-z]+-\d+g?)"
    r")(?![A-Za-z0-9_.-])"
)
"""An instance type of AWS, Azure or Google, whole."""
GPU_WORD = re.compile(r"(?<![a-z])gpus?(?![a-z])", re.I)
UNIT = re.compile(
    r"(?P<count>[0-9]{1,9})?\s*(?P<of>[a-z ]*?)[-_ ]*"
    r"(?P<time>h|hrs?|hours?|min|mins|minutes?|s|sec|secs|seconds?|days?)"
)
LONGEST_UNIT = 60
GPU_COUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,30})?")
UNIT_HOURS = {"h": Fraction(1), "m": Fraction(1, 60), "s": Fraction(1, 3600), "d": Fraction(24)}
WHOLE = ("", "instance", "instances", "vm", "node", "nodes", "machine", "compute", "unit")
PER_GPU = ("gpu", "gpus", "accelerator", "accelerators")
NOT_COMPUTE = ("storage", "networking", "databases", "identity", "integration")
"""Service categories that have no GPUs, whatever a SKU is called."""
SHORT = 3
"""Letters and digits of a type that stands in many SKUs by chance, such as T4."""
OPAQUE = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-F]{4}(-[0-9A-F]{4}){2}"
    r"|[A-Z0-9]{10,}([./-][A-Z0-9]+)*",
    re.ASCII,
)
"""SKUs that are numbers: nothing is read from a few letters of them."""
BEFORE = r"(?:^|[^A-Za-z0-9]|(?i:gpu|nvidia|tesla|amd)|(?<=[a-z])(?=[A-Z])|\dx)"
"""What may stand before a short type: nothing, another word, or a number of GPUs (``8xT4``)."""
TIMES = r"(?<![A-Za-z0-9])([1-9]\d?)x[-_ ]?(?:nvidia[-_ ]?)?"
"""A number of GPUs before their type: ``gpu_8x_a100``."""
WORDS = re.compile(r"[A-Za-z0-9.]+")
IS_A_NAME = "x_SkuIsAName"
"""Property of a charge whose SKU is what somebody called a node or a pod."""
FAMILY = re.compile(r"[a-z]\d")
"""A letter and a digit, such as A2 or P4, are in the names of nodes the family of a machine."""


@dataclass(frozen=True, slots=True)
class Sku:
    """What a charge says of its SKU.

    Attributes:
        sku: its id; None where the charge has none.
        service_category: as FOCUS has it.
        texts: what may name an instance, one a line.
        details: properties, JSON.
        unit: of the quantity; None for hours.
    """

    sku: str | None
    service_category: str | None
    texts: str
    details: str | None
    unit: str | None


@dataclass(frozen=True, slots=True)
class SkuGpus:
    """The GPUs of a SKU.

    Attributes:
        gpu_type: in its one name, or as the user or the log names it.
        gpu_h: GPU-hours of a unit of quantity.
    """

    gpu_type: str
    gpu_h: Fraction


def unit_hours(unit: str | None) -> tuple[Fraction, bool] | None:
    """Return the hours of a unit, and whether it is of one GPU; None for one that is no time."""
    text = " ".join((unit or "hours").lower().split())
    match = UNIT.fullmatch(text) if len(text) <= LONGEST_UNIT else None
    if match is None or match["of"].strip() not in (*WHOLE, *PER_GPU):
        return None
    hours = UNIT_HOURS[match["time"][0]] * int(match["count"] or 1)
    return hours, match["of"].strip() in PER_GPU


def gpus_of(sku: Sku, types: Sequence[str], named: Mapping[str, str]) -> SkuGpus | None:
    """Return the GPUs of a SKU; None where it has none.

    Args:
        sku: of a charge.
        types: GPU types of the log and of the price book.
        named: SKU in lower case -> type, as the user says.
    """
    details = _details(sku.details)
    texts = "\n".join([*_written(details), sku.texts, sku.sku or ""])
    unit = unit_hours(sku.unit)
    named_type = named.get((sku.sku or "").lower())
    if unit is None or (named_type is None and (sku.service_category or "").lower() in NOT_COMPUTE):
        return None
    hours, is_per_gpu = unit
    instance, has_other = _instance(texts)
    count = Fraction(0)
    if not is_per_gpu:
        count = _count(details) or (instance[1] if instance else Fraction(0))
    if named_type is not None:
        return SkuGpus(_as_named_in(named_type, types), hours * (count or 1))
    if instance is not None:
        return SkuGpus(_as_named_in(instance[0], types), hours * (count or 1))
    if has_other and not _count(details):
        return None
    if details.get(IS_A_NAME):
        gpu_type, in_name = _in_name(sku.sku, types), 1
    else:
        gpu_type, in_name = _in_sku(sku.sku, types)
    count = count or Fraction(1 if is_per_gpu else in_name)
    gpu_type = gpu_type or _in_texts(texts, types)
    if gpu_type is None and _count(details):
        unknown = INSTANCE.search(texts)
        only = types[0] if is_per_gpu and len(types) == 1 else UNNAMED
        gpu_type = unknown[0] if unknown else only
    return None if gpu_type is None else SkuGpus(_as_named_in(gpu_type, types), hours * count)


def _details(details: str | None) -> dict[str, Any]:
    """Return the properties of a SKU; of Parquet they may be a record or a list of pairs."""
    try:
        read = json.loads(details) if details else {}
    except (ValueError, RecursionError):
        return {}
    while isinstance(read, dict) and len(read) == 1 and isinstance(next(iter(read.values())), dict):
        read = next(iter(read.values()))
    if isinstance(read, dict) and len(read) == 1 and isinstance(next(iter(read.values())), list):
        read = next(iter(read.values()))
    if isinstance(read, list):
        read = {str(p.get("key")): p.get("value") for p in read if isinstance(p, dict)}
    return read if isinstance(read, dict) else {}


def _written(details: Mapping[str, Any]) -> list[str]:
    keys = ("InstanceType", "instance_type", "instanceType", "GpuModel", "x_GpuModel")
    return [str(details[key]) for key in keys if details.get(key)]


def _count(details: Mapping[str, Any]) -> Fraction | None:
    """Return the GPUs of an instance as its properties say; None where they do not."""
    for key in ("GpuCount", "gpu", "gpu_count", "x_GpuCount"):
        text = str(details.get(key, ""))
        if GPU_COUNT.fullmatch(text) and 0 < (count := Fraction(text)) <= MAX_GPUS:
            return count
    return None


def _instance(texts: str) -> tuple[tuple[str, Fraction] | None, bool]:
    """Return GPU and number of the first instance type that has any; whether there are others."""
    names = [match[0] for match in INSTANCE.finditer(texts)]
    with_gpus = (instances()[name.lower()] for name in names if name.lower() in instances())
    return next(with_gpus, None), bool(names)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def _catalog_types() -> tuple[str, ...]:
    names = []
    for model, sizes in gpu_models().items():
        names += [model, *(f"{model}-{size}GB" for size in sizes)]
    return tuple(names)


def _in_sku(sku: str | None, types: Iterable[str]) -> tuple[str | None, int]:
    """Return the longest type whose letters and digits are in a SKU, and how many it says."""
    if not sku:
        return None, 1
    within = _plain(sku)
    fitting = []
    for place, name in enumerate([*types, *_catalog_types()]):
        letters = _plain(name)
        if not letters or letters not in within:
            continue
        stands_apart = re.search(f"{BEFORE}(?i:{letters})(?![0-9])", sku)
        if len(letters) <= SHORT and (OPAQUE.fullmatch(sku) or not stands_apart):
            continue
        fitting.append((-len(letters), place, name))
    if not fitting:
        return None, 1
    name = min(fitting)[2]
    times = re.search(TIMES + "[^a-z0-9]*".join(_plain(name)), sku, re.I)
    return name, int(times[1]) if times else 1


MOST_PARTS = 8
"""Parts of a name that a GPU type may be spelled in."""


def _in_name(name: str | None, types: Iterable[str]) -> str | None:
    """Return the longest type that whole parts of a name spell: ``pool-a100-80gb-3``."""
    parts = [part for part in re.split(r"[^a-z0-9]+", (name or "").lower()) if part]
    spelled = {
        "".join(parts[first:last])
        for first in range(len(parts))
        for last in range(first + 1, min(first + MOST_PARTS, len(parts)) + 1)
        if not parts[first].isdigit() and not FAMILY.fullmatch(parts[first])
    }
    fitting = [gpu_type for gpu_type in (*types, *_catalog_types()) if _plain(gpu_type) in spelled]
    return max(fitting, key=lambda gpu_type: len(_plain(gpu_type)), default=None)


def _in_texts(texts: str, types: Sequence[str]) -> str | None:
    """Return the GPU that a text with the word GPU names: ``Nvidia H100 80GB GPU running in``."""
    for line in texts.split("\n"):
        if not GPU_WORD.search(line):
            continue
        words = WORDS.findall(line)
        for length in (3, 2, 1):
            for place in range(len(words) - length + 1):
                name = gpu_name(" ".join(words[place : place + length]))
                if name in _catalog_types() and not words[place].isdigit():
                    return name
    return next((name for name in types if name and name in texts.split()), None)


def _as_named_in(gpu_type: str, types: Sequence[str]) -> str:
    """Return a type as the log or the book names it; as it is where none or several may be it."""
    if gpu_type in types:
        return gpu_type
    same_types = [name for name in types if same_gpu(name, gpu_type)]
    exact = [name for name in same_types if gpu_name(name) == gpu_name(gpu_type)] or same_types
    return exact[0] if len(exact) == 1 else gpu_type
