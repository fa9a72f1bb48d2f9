"""Read the JSON output of a command, a ``report.json`` of several studies or a ``plan.toml``, to
compare it with another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import check_plain
from gpuplan.analysis.storage.files import read_small
from gpuplan.cli.diff.shapes import check_shape
from gpuplan.cli.formats.render import JSON_SCHEMA_VERSION
from gpuplan.planner.plan.plan_file import parse_plan

NEXT = "write one with gpuplan COMMAND ... -o FILE.json, or gpuplan report"
OUTPUT = "JSON output of gpuplan"
MOST_NUMBER = 1e300
OF_ALL = ("schema_version", "command", "gpuplan_version")
OF_A_STUDY = {"command": str, "inputs": list, "parameters": dict, "results": dict}


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two documents.

    Attributes:
        path: the file.
        sha256: of its bytes.
        command: what made it; ``report`` for several studies.
        studies: name -> the JSON output of its command; the name is empty where there is one only.
        gpuplan_version: the version that made it.
    """

    path: Path
    sha256: str
    command: str
    studies: dict[str, dict[str, Any]]
    gpuplan_version: str


def read_versions(old: Path, new: Path) -> tuple[Version, Version]:
    """Read two documents that can be compared.

    Raises:
        InputError: a file is not such a document, or they are of different commands or contracts.
    """
    before, after = read_version(old), read_version(new)
    check_comparable(before, after)
    return before, after


def check_comparable(before: Version, after: Version) -> None:
    """Check that two documents are of one command. Raises `InputError`."""
    old, new = before.path, after.path
    if before.command != after.command:
        raise InputError(
            new,
            f"is the output of gpuplan {after.command}, and {old} that of {before.command}",
            expected="two outputs of one command",
        )
    for name, study in before.studies.items():
        other = after.studies.get(name, study)["command"]
        if other != study["command"]:
            raise InputError(
                new,
                f"study {name!r} is of gpuplan {other}, and in {old} of {study['command']}",
                expected="studies of one name to be of one command",
            )


def other_logs(before: Version, after: Version) -> list[str]:
    """Return that two plans are of different logs; empty where they are not, or are no plans."""
    lines = []
    for name, study in before.studies.items():
        other = after.studies.get(name)
        if study["command"] != "plan" or other is None:
            continue
        logs = [side["inputs"][0] for side in (study, other) if side["inputs"]]
        if len({log["sha256"] for log in logs}) > 1:
            old, new = (log["path"] for log in logs)
            lines.append(f"the plans are of different logs, {old} and {new}")
    return lines


def read_version(path: Path) -> Version:
    """Read one document. Raises `InputError` where a file is not the JSON output of gpuplan."""
    data = read_small(path)  # once, since it may be a pipe
    if path.suffix.lower() == ".toml":
        return _of_plan(path, data)
    try:
        document = json.loads(
            data.decode("utf-8-sig"),
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_finite,
        )
        check_plain(document)
        json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair cannot be shown
    except json.JSONDecodeError as error:
        raise InputError(
            path, f"is not JSON: {error.msg}", row=error.lineno, expected=OUTPUT, hint=NEXT
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(path, "is not JSON", expected=OUTPUT, hint=NEXT) from error
    except UnicodeEncodeError as error:
        problem = "is not JSON output of gpuplan: it has half of a surrogate pair"
        raise InputError(path, problem, hint=NEXT) from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not {OUTPUT}: {error}", hint=NEXT) from error
    if not isinstance(document, dict) or any(name not in document for name in OF_ALL):
        raise InputError(
            path, f"has no {' or no '.join(_missing(document))}", expected=OUTPUT, hint=NEXT
        )
    version = document["schema_version"]
    if version != JSON_SCHEMA_VERSION:
        raise InputError(
            path,
            f"has schema_version {version!r}",
            expected=f"{JSON_SCHEMA_VERSION}, which this version of gpuplan reads",
            hint="make it again with this version",
        )
    return Version(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        command=_checked(path, "it", document, {"command": str})["command"],
        studies=_studies(path, document),
        gpuplan_version=str(document["gpuplan_version"]),
    )


def _of_plan(path: Path, data: bytes) -> Version:
    """Return the file of a plan as the JSON output that was written with it."""
    plan = parse_plan(path, data)
    return Version(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        command="plan",
        studies={"": plan.as_study()},
        gpuplan_version=plan.plan.gpuplan_version,
    )


def _missing(document: Any) -> list[str]:
    return [name for name in OF_ALL if not isinstance(document, dict) or name not in document]


def _studies(path: Path, document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if "studies" not in document:
        checked = _checked(path, "it", document, OF_A_STUDY)
        check_shape(path, "it", checked)
        return {"": checked}
    listed = _checked(path, "it", document, {"studies": list})["studies"]
    studies: dict[str, dict[str, Any]] = {}
    for position, study in enumerate(listed, 1):
        checked = _checked(path, f"study {position}", study, {"name": str, **OF_A_STUDY})
        check_shape(path, f"study {position}", checked)
        if studies.setdefault(checked["name"], checked) is not checked:
            raise InputError(path, f"has two studies named {checked['name']!r}", hint=NEXT)
    return studies


def _checked(path: Path, what: str, value: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return an object with all required keys. Raises `InputError`."""
    for name, kind in kinds.items():
        if not isinstance(value, dict) or not isinstance(value.get(name), kind):
            raise InputError(path, f"{what} has no {name}", expected=OUTPUT, hint=NEXT)
    checked: dict[str, Any] = value
    return checked


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= MOST_NUMBER:
        raise ValueError(f"{text} is not a number of JSON, or is too large")
    return value


def _integer(text: str) -> int:
    _finite(text)
    return int(text)
