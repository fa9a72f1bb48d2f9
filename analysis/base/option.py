"""What a field of a request says of the option that sets it: the one declaration of an option.

A request is a dataclass whose fields carry their option::

    by: Annotated[str, Opt("What to split the bill by.", metavar="WHAT", common=True)] = "group"

and whose fields of other such dataclasses are groups of options. From it come the options of the
command line with their help, the keys of a scenario, what JSON has under ``parameters`` with its
schema, and the files that a study reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.time_units import written_utc

MARKUP = re.compile(r"(?<!\\)\[/?[a-z ]+\]")
DATE_FORMATS = [
    "%Y-%m-%d",
    *(f"%Y-%m-%d{gap}%H:%M:%S{zone}" for zone in ("", "%z") for gap in "T "),
    "%Y-%m",
]
"""Times without an offset are UTC."""


@dataclass(frozen=True, slots=True)
class Opt:
    """How a field of a request is set and shown.

    Attributes:
        help: one or more sentences, with the markup of the terminal.
        flag: as typed, ``--price``, or ``--replay/--no-replay``; of an argument its name; empty for
            the name of the field.
        parse: makes the value of the text that is given (of all texts where ``many``) and of the
            flag, which is for its messages; raises `UsageError`. None where the type of the field
            says all: a number, a text, a path, a time, a flag, one of some words.
        write: makes of the value what JSON has; None for the value itself.
        key: its name in JSON, ``a.b`` for ``b`` of an object ``a``; empty for the name of the
            field, None where JSON does not have it.
        omitted: whether JSON leaves it out where it is None.
        metavar: placeholder of the value in the help.
        panel: title of the group in the help; empty for that of its class (``PANEL``).
        common: whether the short help shows it.
        many: whether it may be repeated.
        low, high: range of a number.
        default: text that stands for the default where the option is not given; empty for the
            default of the field, which is then shown where it is no None.
        shows_default: whether the help ends with the default.
        complete: the words that a shell offers, or the name of their completion; of a list with
            commas where a comma ends the name.
        reads, writes: whether it names a file that the study reads or writes; a `Path` is read.
        argument: whether it is an argument and has no flag.
    """

    help: str
    flag: str = ""
    parse: Callable[[Any, str], Any] | None = None
    write: Callable[[Any], Any] | None = None
    key: str | None = ""
    omitted: bool = False
    metavar: str = ""
    panel: str = ""
    common: bool = False
    many: bool = False
    low: float | None = None
    high: float | None = None
    default: str = ""
    shows_default: bool = True
    complete: str | tuple[str, ...] = ""
    reads: bool = False
    writes: bool = False
    argument: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """What a request takes of a group of options: ``Annotated[Selection, Group(...)]``.

    Attributes:
        without: fields of the group that are no options of the request; ``jobs.spot`` for
            ``spot`` of its group ``jobs``.
        common: fields that the short help of this request shows too.
        rare: fields that it leaves out.
        with_null: fields that JSON has also where they are None.
        in_json: whether JSON has them.
        helps: fields with another text of help, where they mean something else to this request.
    """

    without: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    with_null: tuple[str, ...] = ()
    in_json: bool = True
    helps: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """One option of a request.

    Attributes:
        path: names of the fields that lead to it.
        opt: what its field says.
        kind: type of the field.
        default: of the field; `MISSING` where it must be given.
        panel: title of its group in the help.
    """

    path: tuple[str, ...]
    opt: Opt
    kind: Any
    default: Any
    panel: str

    @property
    def name(self) -> str:
        """The name of the option in Python."""
        return self.opt.flag if self.opt.argument and self.opt.flag else self.path[-1]

    @property
    def flag(self) -> str:
        """The flag in messages: the first long one."""
        flag = self.opt.flag or f"--{self.name.replace('_', '-')}"
        return re.split("[/ ]", flag)[0]

    @property
    def key(self) -> str | None:
        """Its name in JSON; None where JSON does not have it."""
        return self.path[-1] if self.opt.key == "" else self.opt.key

    def of(self, request: Any) -> Any:
        """Return the value that a request has."""
        for name in self.path:
            request = getattr(request, name)
        return request


@cache
def declared_options(kind: Any) -> tuple[Declared, ...]:
    """Return the options of a request or group: arguments, those without a panel, all others.

    ``kind`` may be annotated with a `Group`, as a field is.
    """
    group = Group()
    if get_origin(kind) is Annotated:
        kind, *marks = get_args(kind)
        group = next((mark for mark in marks if isinstance(mark, Group)), group)
    options = _declared(kind, (), group)
    return tuple(sorted(options, key=lambda option: (not option.opt.argument, bool(option.panel))))


def _declared(kind: type, path: tuple[str, ...], group: Group) -> Iterator[Declared]:
    hints = get_type_hints(kind, include_extras=True)
    panel = getattr(kind, "PANEL", "")
    for member in fields(kind):
        if member.name in group.without:
            continue
        hint: Any = hints[member.name]
        marks: tuple[Any, ...] = ()
        if get_origin(hint) is Annotated:
            hint, *marks = get_args(hint)  # type: ignore[assignment]
        opt = next((mark for mark in marks if isinstance(mark, Opt)), None)
        here = (*path, member.name)
        if opt is not None:
            default = member.default
            if member.default_factory is not MISSING:
                default = member.default_factory()
            opt = replace(
                opt,
                help=dict(group.helps).get(member.name, opt.help),
                key=opt.key if group.in_json else None,
                omitted=opt.omitted and member.name not in group.with_null,
                common=(opt.common or member.name in group.common)
                and member.name not in group.rare,
            )
            yield Declared(here, opt, hint, default, opt.panel or panel)
        elif isinstance(hint, type) and is_dataclass(hint):
            inner = next((mark for mark in marks if isinstance(mark, Group)), Group())
            within = f"{member.name}."
            outer = (name.removeprefix(within) for name in group.without if name.startswith(within))
            inner = replace(
                inner,
                without=(*inner.without, *outer),
                in_json=inner.in_json and group.in_json,
            )
            yield from _declared(hint, here, inner)


def request_of(kind: type, values: Mapping[tuple[str, ...], Any]) -> Any:
    """Return a request or group with the values of its options, by path.

    Raises `UsageError` where a text cannot be read.
    """
    single: dict[str, Any] = {}
    nested: dict[str, dict[tuple[str, ...], Any]] = {}
    for path, value in values.items():
        if len(path) == 1:
            single[path[0]] = value
        else:
            nested.setdefault(path[0], {})[path[1:]] = value
    hints = _hints_of(kind)
    groups = {name: request_of(hints[name], inner) for name, inner in nested.items()}
    return kind(**single, **groups)


_hints_of = cache(get_type_hints)  # evaluates every annotation again, for each request


def read_value(option: Declared, value: Any) -> Any:
    """Return the value of what was given on a command line or in a scenario. Raises `UsageError`.

    `MISSING` where nothing was given.
    """
    opt = option.opt
    if value is None or value == [] or value == ():
        if not opt.default:
            return MISSING
        value = [opt.default] if opt.many else opt.default
    if opt.parse is not None:
        return opt.parse(value, option.flag)
    return tuple(value) if opt.many else value


def json_parameters(request: Any) -> dict[str, Any]:
    """Return what JSON has under ``parameters``: every option with its value."""
    shown: dict[str, Any] = {}
    for option in declared_options(request.__class__):
        if option.key is None:
            continue
        value = _written(option, option.of(request))
        outer, dot, inner = option.key.partition(".")
        if dot:
            shown.setdefault(outer, {})[inner] = value
        elif value is not None or not option.opt.omitted:
            shown[outer] = value
    return {
        key: value
        for key, value in shown.items()
        if not isinstance(value, dict) or not value or any(v is not None for v in value.values())
    }


def _written(option: Declared, value: Any) -> Any:
    if option.opt.write is not None and value is not None:
        value = option.opt.write(value)
    return written_utc(value) if isinstance(value, datetime) else plain(value)


def changed_options(request: Any) -> dict[str, Any]:
    """Return the options that are not as by default, by their names in a scenario."""
    changed = {}
    for option in declared_options(request.__class__):
        value = option.of(request)
        if value != option.default:
            changed[option.flag.removeprefix("--").replace("-", "_")] = _written(option, value)
    return changed


def parameters_type(kind: type) -> type:
    """Return the dataclass of what JSON has under ``parameters`` for a request of this type.

    Its ``COMPUTED`` are keys that are no options, each with its type and description.
    """
    computed = getattr(kind, "COMPUTED", {})
    outer: dict[str, tuple[Any, str]] = {name: get_args(of) for name, of in computed.items()}
    for option in declared_options(kind):
        if option.key is None:
            continue
        written: Any = option.kind
        if option.opt.write is not None:
            written = get_type_hints(option.opt.write)["return"]
            written = written | None if type(None) in get_args(option.kind) else written
        elif _is_time(written):
            written = str | None
        name, dot, _ = option.key.partition(".")
        if dot:
            outer[name] = (dict[str, written] | UnsetType, "")
        else:
            if option.opt.omitted:
                written = Union[
                    (*(part for part in get_args(written) if part is not NoneType), UnsetType)
                ]
            outer[name] = (written, option.opt.help)
    return _record(f"{kind.__name__.removesuffix('Request')}Parameters", outer)


def _record(name: str, parts: Mapping[str, tuple[Any, str]]) -> type:
    """Return a dataclass of fields of these types; those that may be unset are so by default."""
    listed = [
        (part, of, field(default=UNSET)) if UnsetType in get_args(of) else (part, of)
        for part, (of, _) in parts.items()
    ]
    record = make_dataclass(name, listed, kw_only=True)
    record.__doc__ = "What was asked for.\n\nAttributes:\n" + "".join(
        f"    {part}: {MARKUP.sub('', text)}\n" for part, (_, text) in parts.items() if text
    )
    return record


def _is_time(kind: Any) -> bool:
    """Return whether a type is an instant, or None."""
    return datetime in (kind, *get_args(kind))


def files_read(request: Any) -> tuple[Path | str, ...]:
    """Return the files that a request reads: paths, and texts that may name one."""
    options = declared_options(request.__class__)
    return tuple(_files(request, [option for option in options if not option.opt.writes], False))


def files_written(request: Any) -> tuple[Path, ...]:
    """Return the files that a request writes."""
    options = [option for option in declared_options(request.__class__) if option.opt.writes]
    return tuple(Path(path) for path in _files(request, options, True))


def _files(request: Any, options: list[Declared], every: bool) -> Iterator[Path | str]:
    for option in options:
        value = option.of(request)
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, Path) or (part is not None and (every or option.opt.reads)):
                yield part
