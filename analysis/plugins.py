"""Registries of named things: those built in, and those that installed packages add.

A package adds one through an entry point, whose name is the name of the thing and whose value is
the thing itself. Entry points are looked up when a registry is read, and each is loaded only when
it is needed. One that cannot be used is reported with its package; the rest still works.
Docs: docs/extend.md.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from gpuplan.analysis.base.errors import GpuplanError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Value = TypeVar("Value")
GROUPS = (
    "gpuplan.log_formats",
    "gpuplan.price_formats",
    "gpuplan.invoice_formats",
    "gpuplan.speedups",
    "gpuplan.policies",
)
NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
Result = type | tuple[type, ...]


class PluginError(GpuplanError):
    """Something that an installed package adds cannot be used, or it fails."""

    exit_code = 3


class PluginWarning(UserWarning):
    """Something that an installed package adds is left out."""


class _RefusalLog:
    """Receives the problems of entry points that are left out, each once."""

    report: Callable[[str], None] | None = None
    seen: set[str]

    def __init__(self) -> None:
        self.seen = set()

    def hear(self, problem: str) -> None:
        if problem in self.seen:
            return
        self.seen.add(problem)
        if self.report is None:
            warnings.warn(problem, PluginWarning, stacklevel=3)
        else:
            self.report(problem)


_listener = _RefusalLog()


def report_problems_to(report: Callable[[str], None] | None) -> None:
    """Report what is left out to a function from now on; for None it is a Python warning."""
    _listener.report = report
    _listener.seen = set()


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of an installed package.

    Attributes:
        what: the kind of thing, in words.
        group: the group of the entry point.
        name: the name of the entry point.
        value: the object it refers to, ``module:attribute``.
        package: name and version of the package.
    """

    what: str
    group: str
    name: str
    value: str
    package: str

    def error(self, problem: str) -> PluginError:
        """Return the error about this entry point."""
        return PluginError(
            f"the {self.what} {self.name!r} of the package {self.package} {problem} "
            f"(entry point {self.name} = {self.value} in {self.group})"
            f"\n  next: report it to its authors, or remove it: "
            f"pip uninstall {self.package.partition(' ')[0]}"
        )


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """A function of a package; its failures are reported as failures of the package.

    Attributes:
        call: the function.
        does: what it is, for messages.
        plugin: where it comes from.
        returns: types of its result.
        is_optional: whether a failure is a warning and the result None, instead of an error.
    """

    call: Callable[..., Any]
    does: str
    plugin: Plugin
    returns: Result
    is_optional: bool = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function. Raises `PluginError` where it fails or returns another type."""
        try:
            return self._called(*arguments, **named)
        except PluginError as error:
            if not self.is_optional:
                raise
            _listener.hear(str(error))
            return None

    def _called(self, *arguments: Any, **named: Any) -> Any:
        try:
            result = self.call(*arguments, **named)
        except GpuplanError:
            raise
        except Exception as error:
            raise self.plugin.error(f"fails in {self.does}: {_shown(error)}") from error
        if not isinstance(result, self.returns):
            raise self.plugin.error(f"returns {result!r:.80} from {self.does}")
        return result


class Registry(Mapping[str, Value]):
    """Things of one kind by name, those built in first.

    To look one up by its name loads no other. To go through all of them loads all, and leaves out
    those that cannot be used.
    """

    def __init__(
        self,
        group: str,
        what: str,
        kind: type[Value],
        built_in: Iterable[Value] | Mapping[str, Value],
        *,
        calls: Mapping[str, Result],
        optional_calls: Mapping[str, Result] | None = None,
        reserved: Iterable[str] = (),
        prepare: Callable[[Value], Value] = lambda value: value,
    ) -> None:
        """Make a registry.

        Args:
            group: the group of the entry points.
            what: the kind of thing, in words.
            kind: its type, a dataclass with a ``name``.
            built_in: those built in, by name where they are made when they are looked up.
            calls: attributes that are functions -> types of their results; a failure of one is an
                error of the package.
            optional_calls: the same; a failure of one is a warning, and the result None.
            reserved: names that no package may take, besides those built in.
            prepare: what is done to one that a package adds.

        Raises:
            ValueError: two of those built in have one name.
        """
        self.group, self.what, self.kind = group, what, kind
        self.built_in = built_in if isinstance(built_in, Mapping) else _by_name(built_in, what)
        self._calls, self._optional_calls = calls, optional_calls or {}
        self._reserved = frozenset(reserved)
        self._prepare = prepare
        self._loaded: dict[str, Value] = {}

    def names(self) -> list[str]:
        """Return all names without loading anything."""
        added = self._plugins()
        return [*self.built_in, *(name for name in added if not self._is_reserved(name))]

    def package_of(self, name: str) -> str | None:
        """Return the name and version of the package that adds a name; None if it is built in."""
        return None if name in self.built_in else self._plugins()[name][0].package

    def __getitem__(self, name: str) -> Value:
        """Return the thing of that name. Raises `PluginError` where a package has it in vain."""
        if name in self.built_in:
            self._report_reserved(name)
            return self.built_in[name]
        if name in self._loaded:
            return self._loaded[name]
        entries = [] if self._is_reserved(name) else self._plugins().get(name, [])
        if not entries:
            raise KeyError(name)
        if len(entries) > 1:
            first, second = entries[0], entries[1]
            raise second.error(f"has the name of one of {first.package}; neither is used")
        self._loaded[name] = self._load(entries[0])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a name, without loading it."""
        return name in self.built_in or (
            name in self._plugins() and not self._is_reserved(str(name))
        )

    def __iter__(self) -> Iterator[str]:
        """Go through the names of what can be used; report what cannot be."""
        yield from self.built_in
        for name in self._plugins():
            self._report_reserved(name)
            if self._is_reserved(name):
                continue
            try:
                self[name]
            except PluginError as error:
                _listener.hear(f"{error}".partition("\n")[0])
                continue
            yield name

    def __len__(self) -> int:
        """Return how many there are that can be used."""
        return sum(1 for _ in self)

    def _plugins(self) -> dict[str, list[Plugin]]:
        return {
            name: [
                Plugin(self.what, self.group, name, point.value, _package_of(point))
                for point in points
            ]
            for name, points in _entry_points(self.group).items()
        }

    def _is_reserved(self, name: str) -> bool:
        return name in self.built_in or name in self._reserved

    def _report_reserved(self, name: str) -> None:
        """Report packages that have the name of something built in."""
        for plugin in self._plugins().get(name, ()) if self._is_reserved(name) else ():
            problem = plugin.error("is left out: a built-in one has that name")
            _listener.hear(f"{problem}".partition("\n")[0])

    def _load(self, plugin: Plugin) -> Value:
        """Load an entry point and check what it is. Raises `PluginError`."""
        if not NAME.fullmatch(plugin.name):
            raise plugin.error("cannot be used: names are of a-z, 0-9 and single . _ - between")
        (point,) = _entry_points(self.group)[plugin.name]
        try:
            value = point.load()
        except (Exception, SystemExit) as error:
            raise plugin.error(f"cannot be loaded: {_shown(error)}") from error
        if not isinstance(value, self.kind):
            raise plugin.error(
                f"cannot be used: it is of type {type(value).__name__}, expected "
                f"{self.kind.__module__}.{self.kind.__name__}"
            )
        texts = [field.name for field in fields(value) if field.type == "str"]  # type: ignore[arg-type]
        for name in texts:
            if not isinstance(getattr(value, name), str):
                raise plugin.error(f"cannot be used: its {name} is not a text")
        if _name_of(value) != plugin.name:
            raise plugin.error(
                f"cannot be used: it calls itself {_name_of(value)!r}, unlike its entry point"
            )
        _loaded_modules[point.module.partition(".")[0]] = plugin
        return self._guarded(value, plugin)

    def _guarded(self, value: Value, plugin: Plugin) -> Value:
        defaults = {field.name: field.default for field in fields(value)}  # type: ignore[arg-type]
        try:
            value = self._prepare(value)
        except Exception as error:
            raise plugin.error(f"cannot be used: {_shown(error)}") from error
        guarded = {}
        for calls, is_optional in ((self._calls, False), (self._optional_calls, True)):
            for name, returns in calls.items():
                call = getattr(value, name)
                if not callable(call):
                    raise plugin.error(f"cannot be used: its {name} is not a function")
                if call is not defaults[name]:  # a default is our own function
                    guarded[name] = GuardedCall(call, name, plugin, returns, is_optional)
        return replace(value, **guarded)  # type: ignore[type-var]


def failure_of_package(error: BaseException | None) -> PluginError | None:
    """Return the error about the package whose code raised an error; None where it is ours."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            module = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
            if module in _loaded_modules:
                return _loaded_modules[module].error(f"fails: {_shown(error)}")
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
    return None


def installed_packages() -> list[str]:
    """Return name and version of each package that adds something, sorted."""
    by_name = (points for group in GROUPS for points in _entry_points(group).values())
    return sorted({_package_of(point) for points in by_name for point in points})


_loaded_modules: dict[str, Plugin] = {}
"""The top-level module of what was loaded -> where it comes from."""


@cache
def _entry_points(group: str) -> Mapping[str, list[EntryPoint]]:
    """Return the entry points of a group by name, in the order of their names."""
    from importlib.metadata import entry_points  # takes longer to import than this file

    by_name: dict[str, list[EntryPoint]] = {}
    for point in sorted(
        entry_points(group=group), key=lambda candidate: (candidate.name, _package_of(candidate))
    ):
        by_name.setdefault(point.name, []).append(point)
    return by_name


def _package_of(point: EntryPoint) -> str:
    if point.dist is None:
        return "unknown"
    return f"{point.dist.name} {point.dist.version}"


def _by_name(values: Iterable[Value], what: str) -> Mapping[str, Value]:
    named: dict[str, Value] = {}
    for value in values:
        if named.setdefault(_name_of(value), value) is not value:
            raise ValueError(f"two built-in {what} entries are called {_name_of(value)!r}")
    return named


def _name_of(value: object) -> str:
    name: str = value.name  # type: ignore[attr-defined]
    return name


def _shown(error: BaseException) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
