"""Objects of Kubernetes from the JSON that kubectl prints, and from files or folders of YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.storage.files import existing_file

SUFFIXES = (".yaml", ".yml", ".json")
MOST_BYTES = 4 << 30
MOST_VALUES = 2_000_000
"""Values of a YAML document with its aliases expanded."""
MOST_DEEP = 100
EXPECTED = "objects of Kubernetes as JSON or YAML"
COMMAND = (
    "kubectl get workloads.kueue.x-k8s.io,clusterqueues,cohorts,localqueues,resourceflavors -A "
    "-o json > kueue.json"
)
WATCHED = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


@dataclass(frozen=True, slots=True)
class KubeObject:
    """One object.

    Attributes:
        file: where it was read.
        content: the object.
    """

    file: Path
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its kind; empty where it has none."""
        return _text(self.content.get("kind"))

    @property
    def group(self) -> str:
        """The group of its API, such as ``kueue.x-k8s.io``; empty for the core or where unknown."""
        version = _text(self.content.get("apiVersion"))
        return version.rpartition("/")[0]

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata."""
        return _table(self.content.get("metadata"))

    @property
    def name(self) -> str:
        """Its name."""
        return _text(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        """Its namespace; empty for objects of the cluster."""
        return _text(self.metadata.get("namespace"))

    @property
    def spec(self) -> dict[str, Any]:
        """Its specification."""
        return _table(self.content.get("spec"))

    @property
    def status(self) -> dict[str, Any]:
        """Its status."""
        return _table(self.content.get("status"))


def files_of(path: Path) -> list[Path]:
    """Return the files of a path: itself, or the YAML and JSON files below a folder by name.

    Raises `InputError` where there is none.
    """
    if not path.is_dir():
        existing_file(path)
        return [path]
    inside = (file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    files = sorted(
        file for file in inside
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )  # fmt: skip
    if not files:
        raise InputError(
            path, "the folder has no file of YAML or JSON",
            expected="ClusterQueues, Cohorts and LocalQueues", hint=COMMAND,
        )  # fmt: skip
    return files


def objects_of(path: Path) -> Iterator[KubeObject]:
    """Yield the objects of a file, or of the files of a folder, in order.

    A list is opened, a watch event is the object in it, an array or several JSON texts one after
    the other are their objects.

    Raises:
        InputError: a file cannot be read, or is neither JSON nor YAML of objects.
    """
    for file in files_of(path):
        yield from texts_of(file, read_unpacked(file, MOST_BYTES))


def texts_of(file: Path, text: bytes) -> Iterator[KubeObject]:
    """Yield the objects of the text of a file. Raises `InputError` as `objects_of`."""
    start = text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    documents = _json(file, text) if start in (b"{", b"[") else _yaml(file, text)
    for document in documents:
        for content in _opened(file, document, ""):
            yield KubeObject(file, content)


def _opened(file: Path, document: Any, kind: str, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects in a document; items of a typed list may lack their kind."""
    if document is None:
        return
    if depth > 8:
        raise InputError(file, "has lists in lists", expected=EXPECTED)
    if isinstance(document, list):
        for item in document:
            yield from _opened(file, item, kind, depth + 1)
        return
    if not isinstance(document, dict):
        raise InputError(file, f"found {str(document)[:60]!r}", expected=EXPECTED, hint=COMMAND)
    if isinstance(document.get("object"), dict) and document.get("type") in WATCHED:
        if document["type"] not in ("BOOKMARK", "ERROR"):
            yield from _opened(file, document["object"], kind, depth + 1)
        return
    named = _text(document.get("kind"))
    items = document.get("items")
    if isinstance(items, list) and (named.endswith("List") or not named):
        of = named.removesuffix("List")
        version = document.get("apiVersion") if of else None
        for item in items:
            for content in _opened(file, item, of, depth + 1):
                if version is not None and not content.get("apiVersion"):
                    content["apiVersion"] = version
                yield content
        return
    if not named and kind:
        document["kind"] = kind
    yield document


def _json(file: Path, text: bytes) -> Iterator[Any]:
    """Yield the JSON texts of a file: one, or several one after the other."""
    try:
        yield msgspec.json.decode(text)
        return
    except msgspec.DecodeError as error:
        whole = str(error)
    except RecursionError:
        raise InputError(file, "is nested too deeply", expected=EXPECTED) from None
    try:
        rest = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(file, "is not UTF-8", expected=EXPECTED) from None
    decoder, at = json.JSONDecoder(), 0
    seen = 0
    while at < len(rest):
        while at < len(rest) and rest[at] in " \t\r\n,":
            at += 1
        if at == len(rest):
            break
        try:
            document, at = decoder.raw_decode(rest, at)
        except (ValueError, RecursionError):
            row = rest.count("\n", 0, at) + 1
            problem = f"is not JSON ({whole})" if not seen else "a JSON text is cut or damaged"
            raise InputError(file, problem, row=row, expected=EXPECTED, hint=COMMAND) from None
        seen += 1
        yield document


def _yaml(file: Path, text: bytes) -> Iterator[Any]:
    """Yield the documents of a YAML file, read without any type of Python."""
    import yaml

    from gpuplan.analysis.quota.safe_yaml import SafeLoader

    try:
        for document in yaml.load_all(text, Loader=SafeLoader):
            _check_size(file, document)
            yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise InputError(
            file, f"is not YAML ({error.problem or error.context})",
            row=None if mark is None else mark.line + 1, expected=EXPECTED,
            hint="helm template or kustomize build writes plain YAML" if b"{{" in text else COMMAND,
        ) from None  # fmt: skip
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = str(error).partition("\n")[0][:120]
        raise InputError(
            file, f"is not YAML ({problem})", expected=EXPECTED, hint=COMMAND
        ) from None


def _check_size(file: Path, document: Any) -> None:
    """Refuse a document whose aliases make it huge, or one nested too deeply."""
    left, waiting = MOST_VALUES, [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > MOST_DEEP:
            raise InputError(file, "is too large or nested too deeply", expected=EXPECTED)
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
