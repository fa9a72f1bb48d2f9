"""Objects of Kubernetes from the JSON that kubectl prints, and from files or folders of YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.kubernetes.heads import WORKLOADS
from gpuplan.analysis.kubernetes.objects import (
    DELETED,
    KubeObject,
    newest,
    versions_of,
)
from gpuplan.analysis.kubernetes.refusals import TABLE, not_kubernetes_json
from gpuplan.analysis.reading.source import opened_file, read_unpacked
from gpuplan.analysis.storage.files import existing_file

COMMAND = WORKLOADS

SUFFIXES = (".yaml", ".yml", ".json")
MOST_VALUES = 2_000_000
"""Values of a YAML document with its aliases expanded."""
MOST_DEEP = 100
EXPECTED = "objects of Kubernetes as JSON or YAML"


@dataclass(frozen=True, slots=True)
class SiteObject:
    """One object, of JSON or of YAML.

    Attributes:
        file: where it was read.
        group: the group of its API, such as ``kueue.x-k8s.io``; empty for the core.
        kind, namespace, name: what it is; empty where it has none.
        load: returns it as a dict; decoded only then.
    """

    file: Path
    group: str
    kind: str
    namespace: str
    name: str
    load: Callable[[], dict[str, Any]]

    @classmethod
    def kept(cls, file: Path, item: KubeObject) -> SiteObject:
        """Return an object of JSON; `load` raises `InputError` where it cannot be decoded."""
        names = (item.api_group, item.kind, item.namespace, item.name)
        return cls(file, *names, partial(_content, file, item))

    @classmethod
    def of(cls, file: Path, content: dict[str, Any]) -> SiteObject:
        """Return an object that is decoded already."""
        metadata = table_in(content, "metadata")
        words = (content.get("kind"), metadata.get("namespace"), metadata.get("name"))
        kind, namespace, name = (word if isinstance(word, str) else "" for word in words)
        version = content.get("apiVersion")
        group = version.rpartition("/")[0] if isinstance(version, str) else ""
        return cls(file, group, kind, namespace, name, lambda: content)


def table_in(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table in an object; empty where there is none."""
    value = content.get(key)
    return value if isinstance(value, dict) else {}


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


def site_objects(path: Path) -> Iterator[SiteObject]:
    """Yield the objects of a file, or of the files of a folder, in order.

    Raises:
        InputError: a file cannot be read, or is neither JSON nor YAML of objects.
    """
    for file in files_of(path):
        if _is_yaml(file):
            yield from yaml_objects(file, read_unpacked(file))
            continue
        for kept in versions_of(file, COMMAND):
            if (item := newest_setting(file, kept)).event == DELETED:
                continue
            yield SiteObject.kept(file, item)


def newest_setting(file: Path, kept: list[KubeObject]) -> KubeObject:
    """Return the newest version of an object of a site.

    Raises:
        InputError: a list has it twice, with other contents and nothing that tells which is newer.
    """
    last = newest(kept)
    for item in kept:
        is_newer_unknown = not item.event and item.resource_version == last.resource_version
        if (
            is_newer_unknown
            and item.text != last.text
            and _stated(file, item) != _stated(file, last)
        ):
            raise InputError(
                file, f"{last.kind} {last.name} is there twice, with other contents",
                expected="each object once, or each version with its own resourceVersion",
                hint=COMMAND,
            )  # fmt: skip
    return last


def _content(file: Path, item: KubeObject) -> dict[str, Any]:
    """Return an object as a dict. Raises `InputError` where its text cannot be decoded."""
    try:
        return item.plain()
    except UnicodeDecodeError as error:
        problem, expected = f"a byte {error.object[error.start]:#04x}", "text in UTF-8"
    except (ValueError, RecursionError) as error:
        problem, expected = str(error), "an object as JSON"
    where = f"{item.kind} {item.name}: found {problem}"
    raise InputError(file, where, expected=expected, hint=COMMAND)


def _stated(file: Path, item: KubeObject) -> Any:
    """Return what an object states; of one that states nothing, all of it."""
    content = _content(file, item)
    return content.get("spec", content)


def _is_yaml(file: Path) -> bool:
    """Return whether a file is not JSON by its first letter. Raises `InputError`."""
    with opened_file(file) as stream:
        start = stream.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start and start not in b"{[" and TABLE.match(stream.head):
            problem = not_kubernetes_json(file, stream.head)
            assert problem is not None
            raise problem
    return bool(start) and start not in b"{["


def yaml_objects(file: Path, text: bytes) -> Iterator[SiteObject]:
    """Yield the objects of YAML. Raises `InputError` as `site_objects`."""
    for document in _yaml(file, text):
        items = document if isinstance(document, list) else [document]
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            items = document["items"]
        for item in items:
            if isinstance(item, dict):
                yield SiteObject.of(file, item)
            elif item is not None:
                raise InputError(file, f"found {str(item)[:60]!r}", expected=EXPECTED, hint=COMMAND)


def _yaml(file: Path, text: bytes) -> Iterator[Any]:
    """Yield the documents of a YAML file, read without any type of Python."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # Times stay as they are written.
    resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in base.yaml_implicit_resolvers.items()
    }
    loader = type("SafeLoader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        for document in yaml.load_all(text, Loader=loader):
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
            raise InputError(
                file,
                "is too large or nested too deeply, with its aliases written out",
                expected=EXPECTED,
                hint=f"write objects without aliases (&, *): {COMMAND}",
            )
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]
