"""Slurm's ways to write times, limits and resources."""

from __future__ import annotations

import re

A_TIME = "a time such as 90, 01:30:00 or 2-00:00:00"
UNLIMITED = ("unlimited", "infinite", "-1", "n/a", "none", "(null)", "")
WHOLE = re.compile(r"[0-9]{1,15}")
GPU = re.compile(
    r"(?:^|,)(?:gres/)?gpu(?::(?P<kind>[^:=,()]+))?[:=](?P<count>[0-9]{1,15})", re.IGNORECASE
)


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


def gpus_of(text: str) -> tuple[int, str] | None:
    """Return GPUs and their type of ``gpu:a100:8(S:0-1)`` or ``cpu=4,gres/gpu=8``; None for none.

    The total counts where it is given beside the types; several types have the type "".
    """
    total, typed, kinds = None, 0, []
    for found in GPU.finditer(re.sub(r"\([^)]*\)", "", text)):
        if found["kind"] is None:
            total = int(found["count"])
        else:
            typed += int(found["count"])
            kinds.append(found["kind"].lower())
    if total is None and not kinds:
        return None
    kind = kinds[0] if len(set(kinds)) == 1 else ""
    return (typed if total is None else total), kind


def gpu_limit(text: str) -> int | None:
    """Return the GPUs of a limit such as ``cpu=64,gres/gpu=8``; None where it limits none."""
    found = gpus_of(text)
    return None if found is None else found[0]
