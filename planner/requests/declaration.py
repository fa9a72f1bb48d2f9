"""Declare a study: what it is asked, and what its answer can be written as.

A study called ``name`` is three files: its request here in ``name.py``, the function ``name`` of
``gpuplan.planner.studies.name``, which makes an answer of a request, and ``show`` in
``gpuplan.cli.commands.name``, which makes a headline, tables and a picture of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from gpuplan.analysis.base.option import (
    files_read,
    files_written,
    json_parameters,
    parameters_type,
)


class StudyRequest:
    """What a study is asked: the base of all requests, frozen dataclasses.

    ``COMPUTED`` are keys of ``parameters`` in JSON that are no options, each with its type and
    description: `parameters` adds them, of the request or of the answer.
    """

    __slots__ = ()
    COMPUTED: ClassVar[Mapping[str, Any]] = {}

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, also as part of a text (``table:FILE``)."""
        return files_read(self)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes itself."""
        return files_written(self)

    @property
    def folder_files(self) -> tuple[str, ...]:
        """Files that it makes in a folder of ``--output``."""
        return ()

    def check(self) -> None:
        """Check everything that can be checked without the trace. Raises `GpuplanError`."""

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return json_parameters(self)


WORKLOAD, COST, JCT = "workload", "cost", "completion time"
"""Subjects of the numbers that matter in a comparison of two results."""

ALWAYS, OF_SERVERLESS_LOG, OF_USED_GPUS, OF_BOOK, OF_COMMITMENTS = (
    "always",
    "log of a service that starts containers for requests",
    "log that tells what GPUs did",
    "price book",
    "price book with commitments",
)
"""What makes a study part of a report that names none."""

NEEDS_TABLE = {"provider": ("prices",), "reference": ("prices",)}
"""Options of prices that every study refuses without a price table."""


@dataclass(frozen=True, slots=True)
class StudyDeclaration:
    """What is known of a study before it is asked anything.

    Attributes:
        name: of its command, and of its modules.
        request: the class of its requests.
        example: a command line, at the end of the help.
        title: heading of its section in a report; empty where it cannot be in one.
        picture: title of its picture; empty for its name.
        doing: what the progress bar calls the work; empty for no bar.
        compiles: whether it replays, so that kernels may have to be compiled.
        has_picture: whether its answer has a picture.
        has_rows: whether its answer has rows for a Parquet file.
        has_timeline: whether ``--timeline`` writes what happened over time.
        more_forms: suffix of other files that ``--output`` takes, each written by the view -> what
            they are, for the help.
        instead_of_trace: option that it has in place of a trace; empty where it needs one.
        usual_for: what makes it part of a report that names no study; empty for nothing.
        report_place: its place in such a report; those without one follow by name.
        compared: what matters in a comparison: path of a result -> its subject, and what the
            headline calls it.
        book_needs: option of prices -> the others of which it refuses it without one.
        own_prices: options of its own that have the name of one of prices and another meaning.
        gpu_is_setting: whether the GPU of a price table is a setting of its policies, no option.
        draws_first: whether it draws its pictures while it writes its own files: either all appear
            or none. Its answer takes them as ``pictures``.
    """

    name: str
    request: type[StudyRequest]
    example: str
    title: str = ""
    picture: str = ""
    doing: str = ""
    compiles: bool = False
    has_picture: bool = True
    has_rows: bool = True
    has_timeline: bool = False
    more_forms: Mapping[str, str] = field(default_factory=dict)
    instead_of_trace: str = ""
    usual_for: str = ""
    report_place: int | None = None
    compared: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    book_needs: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NEEDS_TABLE)
    own_prices: tuple[str, ...] = ()
    gpu_is_setting: bool = False
    draws_first: bool = False

    @property
    def help(self) -> str:
        """What the study does: the docstring of its request, without the attributes."""
        return cleandoc(self.request.__doc__ or "").partition("\n\nAttributes:")[0]


R = TypeVar("R", bound=type[StudyRequest])
_DECLARED: dict[str, StudyDeclaration] = {}


def study(name: str, **declared: Any) -> Callable[[R], R]:
    """Return a decorator that declares a class as the request of a study.

    Args:
        name: of the study.
        declared: the other fields of `StudyDeclaration`.
    """

    def declare(request: R) -> R:
        _DECLARED[name] = StudyDeclaration(name, request, **declared)
        return request

    return declare


def declaration_of(name: str) -> StudyDeclaration | None:
    """Return what is declared of a study; its request is imported now. None where there is none."""
    module = f"gpuplan.planner.requests.{name}"
    if find_spec(module) is not None:
        import_module(module)
    return _DECLARED.get(name)


def parameters_of(declaration: StudyDeclaration) -> type:
    """Return the type of what JSON has under ``parameters``.

    That is what ``parameters`` of its answer returns where this is a dataclass, or else made of the
    options.
    """
    method = getattr(_answer_of(declaration), "parameters", None)
    kind = None if method is None else get_type_hints(method)["return"]
    return kind if is_dataclass(kind) else parameters_type(declaration.request)  # type: ignore[return-value]


def results_of(declaration: StudyDeclaration) -> tuple[type, ...]:
    """Return the types that the results of a study may have: those of its answer's ``results``."""
    answer = _answer_of(declaration)
    results = getattr(get_origin(answer) or answer, "results", None)
    if isinstance(results, property):
        kind = get_type_hints(results.fget)["return"]
    else:
        kind = get_type_hints(get_origin(answer) or answer)["results"]
    if isinstance(kind, TypeVar):  # of a generic answer: the last of its types
        kind = get_args(answer if get_args(answer) else answer.__orig_bases__[0])[-1]
    return get_args(kind) or (kind,)


def _answer_of(declaration: StudyDeclaration) -> Any:
    """Return the type of the answer of a study."""
    name = declaration.name
    function = getattr(import_module(f"gpuplan.planner.studies.{name}"), name)
    return get_type_hints(function)["return"]
