"""The objects in a file of Kubernetes JSON, whatever holds them.

One object, a List, a typed list such as PodList, an array, JSON lines, or a stream of watch events:
JSON texts one after the other. A text is scanned once for where its objects lie; an object is
decoded when it is asked for, and only the members of its type.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.kubernetes.refusals import not_kubernetes_json
from gpuplan.analysis.reading.batch import CUT_OFF, Refused
from gpuplan.analysis.reading.records import LENIENT, plain
from gpuplan.analysis.reading.source import BYTE_ORDER_MARK, SourceStream, opened_file

T = TypeVar("T")

DELETED = "DELETED"
IGNORED_EVENTS = frozenset({"BOOKMARK", "ERROR"})
"""Watch events that tell nothing of an object: a position in the stream, and its end."""

TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
NEXT_TEXT = re.compile(rb"\n(?=[{\[])")
SPACES = re.compile(rb"\s*")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError)
NOTHING = Raw()
NOT_JSON = "is not JSON"
MOST_DIGITS = 300
MOST_LENIENT = 1 << 26
MOST_WHOLE = 1 << 62
HINT = "export it again with kubectl get ... -o json"
AN_OBJECT = "an object of Kubernetes: kind and metadata"


ObjectKey = str | tuple[str, str, str]
"""The uid of an object; kind, namespace and name of one without."""


class _Meta(Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = msgspec.field(name="resourceVersion", default=None)


class _Identity(Struct):
    kind: str | None = None
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    metadata: _Meta | None = None


class _Text(Struct):
    """What a JSON text is: an object, a list of them, or a watch event."""

    kind: str | None = None
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    items: Raw = NOTHING
    type: Raw = NOTHING
    object: Raw = NOTHING
    message: Raw = NOTHING
    status: Raw = NOTHING


_AS_TEXT, _AS_IDENTITY = msgspec.json.Decoder(_Text), msgspec.json.Decoder(_Identity)
_AS_LIST, _AS_WORD = msgspec.json.Decoder(list[Raw]), msgspec.json.Decoder(str)
_AS_ITEMS = msgspec.json.Decoder(list[Raw] | None)


def _any_number(digits: str) -> float:
    """Return a whole number as such, and as a float where it has more digits than any amount."""
    return int(digits) if len(digits) < MOST_DIGITS else float(digits)


class KubeObject(Struct, frozen=True, gc=False):
    """One object as a file has it once.

    A dump has hundreds of thousands: the collector of cycles need not visit them, they have none.

    Attributes:
        source: position of the file among those read together.
        number: its position among the objects of the file, from 1.
        api_version: such as ``v1``, ``batch/v1`` or ``kueue.x-k8s.io/v1beta2``; may be empty.
        kind: such as ``Pod``.
        namespace, name, uid: of its metadata; empty where it has none.
        resource_version: of its metadata; None where it is not a whole number.
        event: type of its watch event; empty where it is not of one.
        text: its JSON.
    """

    source: int
    number: int
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int | None
    event: str
    text: Raw

    @property
    def api_group(self) -> str:
        """The part of the version before the slash; empty for ``v1``."""
        return self.api_version.rpartition("/")[0]

    @property
    def key(self) -> ObjectKey:
        """What all versions of the object share."""
        return self.uid or (self.kind, self.namespace, self.name)

    def plain(self) -> dict[str, Any]:
        """Return it as a dict, with its kind and version even where its list alone has them.

        Raises ValueError where its text is not an object.
        """
        value = json.loads(bytes(self.text), parse_int=_any_number)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return {**value, "apiVersion": self.api_version, "kind": self.kind}

    def read(self, decoder: msgspec.json.Decoder[T]) -> T:
        """Return the members that a decoder has. Raises one of `UNREADABLE`."""
        return decoder.decode(self.text)

    def shown(self) -> str:
        """Return what may be written of it anywhere: what it is, and nothing that it holds."""
        names = {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        return msgspec.json.encode({**names, "uid": self.uid}).decode()


@dataclass(slots=True)
class ObjectFile:
    """The objects of a file.

    Attributes:
        path: what messages call it.
        source: its position among the files read together.
        objects: in order; an object may stand in several versions.
        refused: texts that are no objects.
        is_cut: whether it ends within a text.
    """

    path: Path
    source: int = 0
    objects: list[KubeObject] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    is_cut: bool = False


def versions_of(path: Path, hint: str = HINT) -> Iterator[list[KubeObject]]:
    """Return the versions of each object of a file, in the order of their first ones.

    Raises:
        InputError: there is no such file, it is not JSON of Kubernetes, or a part of it is not.
    """
    with opened_file(path) as stream:
        file = read_objects(stream)
    for refused in file.refused:
        raise InputError(
            path, refused.found or "", row=refused.row, expected=refused.expected, hint=hint
        )
    return versions(file.objects)


def versions(objects: Iterable[KubeObject]) -> Iterator[list[KubeObject]]:
    """Yield the versions of each object, in order; most have one."""
    first: dict[ObjectKey, KubeObject] = {}
    several: dict[ObjectKey, list[KubeObject]] = {}
    for item in objects:
        earliest = first.setdefault(item.key, item)
        if earliest is not item:
            several.setdefault(item.key, [earliest]).append(item)
    for key, item in first.items():
        yield several.get(key) or [item]


def newest(kept: list[KubeObject]) -> KubeObject:
    """Return the newest of the versions of an object: the largest if all have a number."""
    if len(kept) == 1:
        return kept[0]
    numbers = [item.resource_version for item in kept]
    if None in numbers:
        return kept[-1]
    return max(enumerate(kept), key=lambda item: (item[1].resource_version, item[0]))[1]


def in_order(kept: Sequence[KubeObject]) -> list[KubeObject]:
    """Return the versions of an object, the newest last: by number if all have one."""
    if any(item.resource_version is None for item in kept):
        return list(kept)
    return sorted(kept, key=lambda item: item.resource_version or 0)


def read_objects(stream: SourceStream, source: int = 0) -> ObjectFile:
    """Return the objects of a stream; its text stays in memory as long as one of them does.

    Args:
        stream: the file.
        source: its position among the files read together.

    Raises:
        InputError: it is not JSON, it is an answer that says it failed, or it ends in a list.
    """
    data = stream.to_file().read_bytes()
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    file = ObjectFile(stream.path, source)
    for row, text, problem in json_texts(data, start):
        if problem is None:
            _add_text(file, text)
            continue
        if row == 1:
            raise _no_json(stream.path, data[start:], problem)
        reason = CUT_OFF if problem.startswith("ends in") else "unreadable"
        file.is_cut |= reason == CUT_OFF
        file.refused.append(Refused(row, reason, None, problem, "a JSON text", ""))
    if not file.objects and not file.refused and not data[start:].strip():
        raise InputError(
            stream.path, "is empty", expected="objects of Kubernetes as JSON", hint=HINT
        )
    return file


def _no_json(path: Path, data: bytes, problem: str) -> InputError:
    return not_kubernetes_json(path, data) or InputError(
        path, problem, expected="objects of Kubernetes as JSON", hint=HINT
    )


def read_text(stream: SourceStream, expected: str, hint: str) -> memoryview:
    """Return the one JSON text of a stream.

    Raises:
        InputError: it is something else; the message has ``expected`` and the hint.
    """
    data = stream.to_file().read_bytes()
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    texts = list(json_texts(data, start))
    problem = "is empty" if not texts else texts[0][2]
    if problem is None and len(texts) > 1:
        problem = "has several JSON texts"
    if problem is not None:
        raise InputError(stream.path, problem, expected=expected, hint=hint)
    return texts[0][1]


def json_texts(data: bytes, start: int) -> Iterator[tuple[int, memoryview, str | None]]:
    """Yield each JSON text with its number, or a number with what is wrong there."""
    view, at, number = memoryview(data), start, 0
    while (at := SPACES.match(data, at).end()) < len(data):  # type: ignore[union-attr]
        number += 1
        end, problem = _end_of_text(view[at:])
        if problem is None:
            yield number, view[at : at + end], None
            at += end
            continue
        if problem.startswith(NOT_JSON) and (lenient := _lenient(view[at:])) is not None:
            yield number, lenient[0], None
            at += lenient[1]
            continue
        yield number, view[at:at], problem
        following = NEXT_TEXT.search(data, at + 1)
        if following is None:
            return
        at = following.end()


def _end_of_text(view: memoryview) -> tuple[int, str | None]:
    """Return where the first JSON text of some bytes ends, or what is wrong with it."""
    if view[:1].tobytes() not in (b"{", b"["):
        return 0, NOT_JSON
    try:
        msgspec.json.decode(view, type=Raw)
    except msgspec.DecodeError as error:
        if (match := TRAILING.search(str(error))) is not None:
            return int(match[1]) - 1, None  # it names the end of the first character after it
        if "truncated" in str(error):
            return 0, "ends in the middle of this text: the file was cut"
        return 0, f"{NOT_JSON} ({error})"
    except RecursionError:
        return 0, "is nested too deeply"
    except UnicodeDecodeError:
        return 0, "is not UTF-8 text"
    return len(view), None


def _lenient(view: memoryview) -> tuple[memoryview, int] | None:
    """Return a text with what JSON forbids but programs write, as JSON, and where it ends.

    ``NaN`` and numbers beyond all bounds become text, so that only what reads them is refused.
    """
    if len(view) > MOST_LENIENT:
        return None
    try:
        text = view.tobytes().decode("utf-8", "surrogateescape")
        value, end = LENIENT.raw_decode(text)
        if not isinstance(value, dict | list):
            return None
        written = msgspec.json.encode(_plain_value(value))
        return memoryview(written), len(text[:end].encode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {plain(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, int) and abs(value) > MOST_WHOLE else value


def _add_text(file: ObjectFile, text: memoryview) -> None:
    if text[:1].tobytes() == b"[":
        for item in _AS_LIST.decode(text):
            _add_member(file, item)
    else:
        _add_member(file, text)


def _add_member(file: ObjectFile, text: Raw | memoryview) -> None:
    """Add an object, the objects of a list, or that of a watch event."""
    try:
        member = _AS_TEXT.decode(text)
        kind = member.kind or ""
        if member.object and not kind:
            event = _AS_WORD.decode(member.type) if member.type else ""
            if event not in IGNORED_EVENTS:
                _add(file, member.object, "", "", event)
        elif member.items and (kind.endswith("List") or not kind):
            of = kind.removesuffix("List")
            for item in _AS_ITEMS.decode(member.items) or ():  # Go writes null for an empty list
                _add(file, item, of, (member.api_version or "") if of else "", "")
        else:
            _check_answer(file.path, member)
            _add(file, text, "", "", "")
    except UNREADABLE as error:
        _refuse(file, error)


def _add(file: ObjectFile, text: Raw | memoryview, kind: str, api_version: str, event: str) -> None:
    number = len(file.objects) + len(file.refused) + 1
    try:
        identity = _AS_IDENTITY.decode(text)
    except UNREADABLE as error:
        _refuse(file, error)
        return
    meta = identity.metadata or _Meta()
    if not (identity.kind or kind) or not (meta.name or meta.uid):
        _refuse(file, ValueError("no kind or no name"))
        return
    version = meta.resource_version or ""
    file.objects.append(
        KubeObject(
            file.source,
            number,
            sys.intern(identity.api_version or api_version),
            sys.intern(identity.kind or kind),
            sys.intern(meta.namespace or ""),
            meta.name or "",
            meta.uid or "",
            int(version) if version.isascii() and version.isdigit() and len(version) < 30 else None,
            event,
            text if isinstance(text, Raw) else Raw(text),
        )
    )


def _refuse(file: ObjectFile, error: Exception) -> None:
    number = len(file.objects) + len(file.refused) + 1
    problem = shortened(str(error)) if not isinstance(error, RecursionError) else "too deep"
    file.refused.append(Refused(number, "unreadable", None, problem, AN_OBJECT, ""))


def _check_answer(path: Path, member: _Text) -> None:
    """Refuse an answer of an API server that says that it failed. Raises `InputError`."""
    if member.kind == "Status" and member.status and member.message:
        status, message = json.loads(bytes(member.status)), json.loads(bytes(member.message))
        if status == "Failure":
            raise InputError(
                path, f"is an error of the API server: {message}", hint="ask again as it says"
            )
