"""Mutations of bytes, of lines and cells, and of JSON documents."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fuzz.values import BYTES, JSON_RAW, JSON_VALUES, SEPARATORS


def mutate(data: bytes, rng: Random, other: bytes = b"") -> tuple[bytes, str]:
    """Return damaged data and a description; structured data is mostly damaged in its structure."""
    is_json = data.lstrip()[:1] in (b"{", b"[")
    roll = rng.random()
    if is_json and roll < 0.6:
        return mutate_json(data, rng)
    if roll < 0.75:
        return mutate_lines(data, rng)
    return mutate_bytes(data, rng, other)


def mutate_bytes(data: bytes, rng: Random, other: bytes = b"") -> tuple[bytes, str]:
    """Flip, cut, repeat, splice or insert bytes."""
    spot = rng.randint(0, len(data))
    length = rng.choice((1, 1, 2, 3, 8, 64, 1_000))
    match rng.randrange(8):
        case 0 if data:
            place = spot % len(data)
            flipped = data[place] ^ (1 << rng.randrange(8))
            return data[:place] + bytes([flipped]) + data[place + 1 :], f"flip a bit at {place}"
        case 1:
            return data[:spot], f"truncate to {spot} bytes"
        case 2:
            return data[:spot] + data[spot + length :], f"delete {length} bytes at {spot}"
        case 3:
            return data[:spot] + data[max(0, spot - length) :], f"repeat {length} bytes at {spot}"
        case 4 if other:
            place = rng.randint(0, len(other))
            return data[:spot] + other[place:], f"splice another file at {spot}"
        case 5:
            huge = rng.choice((b"9", b"x", b" ", b"\0", b'"', b",", b"\n", b"[")) * 100_000
            return data[:spot] + huge + data[spot:], f"insert 100,000 x {huge[:1]!r} at {spot}"
        case 6 if data:
            place = spot % len(data)
            drawn = bytes([rng.randrange(256)])
            return data[:place] + drawn + data[place + 1 :], f"put {drawn!r} at {place}"
        case _:
            value = rng.choice(BYTES)
            return data[:spot] + value + data[spot:], f"insert {value[:20]!r} at {spot}"


def mutate_lines(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Damage a line, a cell, or the header; repeat, drop or shuffle lines."""
    lines = data.split(b"\n")
    first = int(len(lines) > 1 and rng.random() < 0.8)  # mostly below the header
    at = rng.randrange(first, len(lines))
    what = ""
    match rng.randrange(16):
        case 0:
            del lines[at]
            what = f"drop line {at + 1}"
        case 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
            what = f"repeat a line before line {at + 1}"
        case 2:
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
            what = f"cut line {at + 1}"
        case 3:
            rng.shuffle(lines)
            what = "shuffle the lines"
        case 4:
            lines = [rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\r")).join(lines)]
            what = "change the ends of lines"
        case 5:
            lines = lines[: rng.randint(1, len(lines))]
            what = f"keep {len(lines)} lines"
        case _:
            found = [one for one in SEPARATORS if one in lines[at]] or [b","]
            separator = found[0] if rng.random() < 0.7 else rng.choice(found)
            cells = lines[at].split(separator)
            column = rng.randrange(len(cells))
            if rng.random() < 0.1:
                rng.shuffle(cells)
                what = f"shuffle the cells of line {at + 1}"
            else:
                value = rng.choice(BYTES)
                cells[column] = value
                what = f"put {value[:30]!r} in cell {column + 1} of line {at + 1}"
            lines[at] = separator.join(cells)
    return b"\n".join(lines), what


def mutate_json(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Replace, drop, repeat or nest a value of a document or of JSON lines."""
    by_line = b"\n{" in data.strip() and not data.lstrip().startswith(b"[")
    try:
        documents: list[Any] = (
            [json.loads(line) for line in data.splitlines() if line.strip()]
            if by_line
            else [json.loads(data)]
        )
    except (ValueError, RecursionError):  # damaged before
        return mutate_bytes(data, rng)
    spots: list[tuple[Any, Any]] = []
    waiting: list[Any] = [documents]
    while waiting:
        node = waiting.pop()
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            spots.append((node, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    if not spots:
        return mutate_bytes(data, rng)
    node, key = rng.choice(spots)
    raw: bytes | None = None
    match rng.randrange(8):
        case 0:
            del node[key]
            what = f"drop {key!r}"
        case 1 if isinstance(node, list):
            node.append(node[key])
            what = f"repeat item {key}"
        case 2:
            raw = rng.choice(JSON_RAW)
            node[key] = "@raw@"
            what = f"put {raw[:20]!r} at {key!r}"
        case 3 if isinstance(node, dict):
            node[rng.choice(("", "\ud800", "x" * 300, "\0", key.upper()))] = node.pop(key)
            what = f"rename {key!r}"
        case 4:
            node[key] = [node[key]]
            what = f"nest {key!r}"
        case _:
            node[key] = value = rng.choice(JSON_VALUES)
            what = f"set {key!r} to {str(value)[:30]!r}"
    text = b"".join(json.dumps(one).encode() + (b"\n" if by_line else b"") for one in documents)
    return (text if raw is None else text.replace(b'"@raw@"', raw)), what
