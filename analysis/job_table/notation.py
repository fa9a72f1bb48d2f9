"""Slurm's ways to write times, limits, resources and lists of hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, product

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.analysis.job_table.gres import no_accelerators

A_TIME = "a time such as 90, 01:30:00 or 2-00:00:00"
UNLIMITED = ("unlimited", "infinite", "-1", "n/a", "none", "(null)", "")
WHOLE = re.compile(r"[0-9]{1,15}")
GPU = re.compile(
    r"(?:^|,)(?:gres/)?gpu(?::(?P<kind>[^:=,()]+))?[:=](?P<count>[0-9]{1,15})", re.IGNORECASE
)
OTHER = re.compile(
    r"(?:^|,)(?:gres/)?(?P<name>[a-z][^:=,()/]*)(?::(?P<kind>[a-z][^:=,()]*))?(?P<mark>[:=])"
    r"(?P<count>[0-9]{1,15})(?=,|$)",
    re.IGNORECASE,
)
MOST_HOSTS = 100_000
MOST_BRACKETS = 8
"""Brackets of one name; Slurm has one for each dimension of a cluster."""
MOST_LETTERS = 20_000_000
"""Letters of all names of a part of a host list."""
RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")


def minutes_limit(text: str) -> int | None:
    """Return the seconds of ``60``, ``MM:SS``, ``HH:MM:SS``, ``D-HH[:MM[:SS]]``; None: no limit.

    A bare number is minutes, as everywhere in Slurm's settings.

    Raises:
        ValueError: it is none of these.
    """
    text = text.strip()
    if text.lower() in UNLIMITED:
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(map(WHOLE.fullmatch, parts)) or (dash and not WHOLE.fullmatch(days)):
        raise ValueError(f"{text!r} is not {A_TIME}")
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds, *_ = (*numbers, 0, 0)
        return int(days) * 86400 + hours * 3600 + minutes * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    if len(numbers) == 2:
        return numbers[0] * 60 + numbers[1]
    if len(numbers) == 3:
        return numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    raise ValueError(f"{text!r} is not {A_TIME}")


def read_time(text: str, option: str, least: int = 1) -> int:
    """Return the seconds of ``1d``, ``36h`` or Slurm's ``1-12:00:00``.

    A bare number is refused: Slurm reads it as minutes, other options as seconds.

    Raises:
        UsageError: it is not such a time, or under ``least`` seconds.
    """
    text = text.strip()
    try:
        if set(text) & set("-:"):
            seconds = minutes_limit(text)
        else:
            is_whole = text[-1:].isalpha() or text == "0"
            seconds = round(parse_duration(text, option)) if is_whole else None
    except (ValueError, OverflowError, UsageError):
        seconds = None
    if seconds is None or not least <= seconds <= CENTURY_S:
        has_no_unit = WHOLE.fullmatch(text) is not None and int(text) > 0
        doubt = (
            f"; write {text}h for hours, {text}min for minutes (as Slurm reads {text})"
            if has_no_unit
            else ""
        )
        raise UsageError(
            f"{option} {text!r}: expected a time with its unit, such as 90min, 36h, 1d or "
            f"1-12:00:00{doubt}"
        )
    return seconds


def gpus_of(text: str) -> tuple[int, str] | None:
    """Return GPUs and their type of ``gpu:a100:8(S:0-1)`` or ``cpu=4,gres/gpu=8``; None for none.

    The total counts where it is given beside the types; several types have the type "". Without
    a GPU other accelerators count, such as ``npu:ascend910b:8``.
    """
    total, typed, kinds = None, 0, []
    text = re.sub(r"\([^)]*\)", "", text)
    for match in GPU.finditer(text) if GPU.search(text) else _other_devices(text):
        if match["kind"] is None:
            total = int(match["count"])
        else:
            typed += int(match["count"])
            kinds.append(match["kind"].lower())
    if total is None and not kinds:
        return None
    kind = kinds[0] if len(set(kinds)) == 1 else ""
    return (typed if total is None else total), kind


def _other_devices(text: str) -> Iterator[re.Match[str]]:
    """Yield the accelerators that Slurm does not call ``gpu``."""
    for match in OTHER.finditer(text):
        is_gres = match["mark"] == ":" or match[0].lstrip(",").lower().startswith("gres/")
        if is_gres and match["name"].lower() not in no_accelerators():
            yield match


def gpu_limit(text: str) -> int | None:
    """Return the GPUs of a limit such as ``cpu=64,gres/gpu=8``; None where it limits none."""
    gpus = gpus_of(text)
    return None if gpus is None else gpus[0]


def capacity(keys: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPUs and megabytes of a node by its keys in lower case; 0 where it tells none."""

    def number(*names: str) -> float:
        texts = (keys.get(name, "") for name in names)
        return next((float(text) for text in texts if WHOLE.fullmatch(text)), 0.0)

    sockets = number("sockets") or number("socketsperboard") * (number("boards") or 1)
    cores = number("corespersocket") * (number("threadspercore") or 1)
    return number("cputot", "cpus", "procs") or sockets * cores, number("realmemory")


def split_hosts(text: str) -> list[str]:
    """Split at the commas that are outside brackets."""
    parts, depth, begin = [], 0, 0
    for i, mark in enumerate(text):
        if mark == "[":
            depth += 1
        elif mark == "]":
            depth -= 1
        elif mark == "," and depth <= 0:
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip()]


def slurm_time(seconds: int) -> str:
    """Return seconds in Slurm's notation: ``D-HH:MM:SS``."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02d}:{minute:02d}:{second:02d}"


def expand_hosts(text: str) -> list[str]:
    """Return the names of a host list in its order, each once.

    Raises:
        ValueError: a bracket does not close, a range is none, or there are too many names.
    """
    names: dict[str, None] = {}
    for part in split_hosts(text):
        for name in _expand(part):
            names[name] = None
            if len(names) > MOST_HOSTS:
                raise ValueError(f"a host list may name {MOST_HOSTS:,} hosts at most")
    return list(names)


def hosts_of(text: str | None) -> list[str]:
    """Return the names of a host list; none where it is not one."""
    try:
        return expand_hosts(text) if text else []
    except ValueError:
        return []


def _expand(part: str) -> list[str]:
    """Return the names of a part of a host list, the numbers of its last brackets fastest."""
    texts, numbers, count, at = [], [], 1, 0
    while (begin := part.find("[", at)) >= 0:
        end = part.find("]", begin)
        if end < 0 or "]" in part[at:begin]:
            raise ValueError(f"the brackets of {shortened(part)!r} do not match")
        texts.append(part[at:begin])
        numbers.append(_numbers(part[begin + 1 : end], part))
        count, at = count * len(numbers[-1]), end + 1
        if count > MOST_HOSTS:
            raise ValueError(f"{shortened(part)!r} names more than {MOST_HOSTS:,} hosts")
        if len(numbers) > MOST_BRACKETS:
            raise ValueError(f"{shortened(part)!r} has more than {MOST_BRACKETS} pairs of brackets")
    tail = part[at:]
    if "]" in tail:
        raise ValueError(f"the brackets of {shortened(part)!r} do not match")
    if count * (len(tail) + sum(map(len, texts))) > MOST_LETTERS:
        raise ValueError(f"the names of {shortened(part)!r} are too long")
    return [
        "".join([*chain.from_iterable(zip(texts, chosen, strict=True)), tail])
        for chosen in product(*numbers)
    ]


def _numbers(text: str, part: str) -> list[str]:
    """Return the numbers of ``01-04,7`` as they are written. Raises ValueError."""
    numbers: list[str] = []
    for piece in text.split(","):
        span = RANGE.fullmatch(piece.strip())
        if span is None:
            raise ValueError(
                f"{piece!r} in {shortened(part)!r} is not a number or a range like 01-04"
            )
        first, last = int(span[1]), int(span[2] or span[1])
        if last < first or last - first > MOST_HOSTS:
            raise ValueError(f"{piece!r} in {shortened(part)!r} is not a range that ascends")
        if len(numbers) + last - first >= MOST_HOSTS:
            raise ValueError(f"{shortened(part)!r} names more than {MOST_HOSTS:,} hosts")
        numbers += [str(number).zfill(len(span[1])) for number in range(first, last + 1)]
    return numbers
