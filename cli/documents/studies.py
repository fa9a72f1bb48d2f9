"""Options given by name, as in a scenario file, and the studies that they make.

A scenario file knows every option of every command, its type, its limits and its default, without a
second list of them: the options are the parameters of the commands, and their values are read as
those of a command line are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import did_you_mean
from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.documents.study_command import Study, StudyCommand, study_command
from gpuplan.cli.formats.report import Report
from gpuplan.planner.requests.settings import removed_hint

NOT_HERE = frozenset({"help", "output", "save_model", "export"})
"""Where a result goes is for the document to say, not for a study in it."""
CHOICES = {
    ("from", "to"): "takes no period and uses the whole log",
    ("where", "since", "until", "sample"): "uses all jobs of the log",
    ("scale_duration", "scale_interarrival"): "uses the log as recorded",
}
"""Options that choose and scale jobs, and what a study uses that does not take them."""
SPEND = "spend"
"""What people call ``forecast --spend`` as a study."""


@dataclass(frozen=True, slots=True)
class StudyOption:
    """One option of a command, as a study may set it.

    Attributes:
        key: its name with underscores, as in a scenario file.
        parameter: the parameter of the command that it sets.
        flag: its name on the command line.
        off: the flag that switches it off; empty where there is none.
        is_flag: whether it takes no value.
        multiple: whether it may be repeated.
        help: what it is, one text.
    """

    key: str
    parameter: str
    flag: str
    off: str
    is_flag: bool
    multiple: bool
    help: str


@dataclass(frozen=True, slots=True)
class GivenOption:
    """An option with what it is set to.

    Attributes:
        option: the option.
        value: true or false for a flag, texts for an option that may be repeated, else one text.
    """

    option: StudyOption
    value: bool | str | tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The option as it is written on a command line."""
        option, value = self.option, self.value
        if isinstance(value, bool):
            return (option.flag,) if value else (option.off,) if option.off else ()
        texts = (value,) if isinstance(value, str) else value
        return tuple(f"{option.flag}={text}" for text in texts)


Given = tuple[GivenOption, ...]


def study_options(command: str) -> dict[str, StudyOption]:
    """Return the options a study may set, by key.

    Raises:
        UsageError: there is no such study; the message names the nearest.
    """
    options = {}
    for parameter in _reader(command).params:
        if parameter.param_type_name != "option":
            continue
        long = max(parameter.opts, key=len)
        key = long.removeprefix("--").replace("-", "_")
        if key in NOT_HERE:
            continue
        options[key] = StudyOption(
            key=key,
            parameter=parameter.name,
            flag=long,
            off=next(iter(parameter.secondary_opts), ""),
            is_flag=bool(getattr(parameter, "is_flag", False)),
            multiple=bool(parameter.multiple),
            help=getattr(parameter, "help", None) or "",
        )
    return options


def given_options(command: str, options: Mapping[str, Any]) -> Given:
    """Return a study's options as given by name.

    A list repeats an option that may be repeated and is joined by commas elsewhere.

    Raises:
        UsageError: no such option, or a value that is no text, number, flag or list of them.
    """
    declared = study_options(command)
    return tuple(_given_option(command, declared, key, value) for key, value in options.items())


def _given_option(
    command: str, declared: Mapping[str, StudyOption], key: str, value: Any
) -> GivenOption:
    option = declared.get(key)
    if option is None:
        hint = removed_hint(key, str(value)) or did_you_mean(key, declared)
        if key in NOT_HERE:
            hint = " here: where a result goes is for the document to say"
        raise UsageError(f"gpuplan {command} has no option {key!r}{hint}")
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{key}: expected true or false, found {value!r}")
        return GivenOption(option, value)
    if option.multiple:
        each = value if isinstance(value, list) else [value]
        return GivenOption(option, tuple(_text(key, part) for part in each))
    if isinstance(value, list):
        return GivenOption(option, ",".join(_text(key, part) for part in value))
    return GivenOption(option, _text(key, value))


def words_of(options: Iterable[GivenOption]) -> tuple[str, ...]:
    """Return options as they are written on a command line, for documents to show."""
    return tuple(word for option in options for word in option.words)


def takes_trace(command: str, keys: Collection[str]) -> bool:
    """Return whether a study with these options, by key, reads a trace."""
    other = _study_command(command).declaration.instead_of_trace
    return not other or other not in keys


def left_out(command: str, shared: Mapping[str, Any]) -> Iterator[str]:
    """Yield which choices of jobs that are given for all a study does not take.

    Args:
        command: of the study.
        shared: what is given for all, by key.
    """
    for keys, instead in CHOICES.items():
        chosen = [key for key in keys if shared.get(key, 1) not in (1, False)]
        if left := [key for key in chosen if key not in study_options(command)]:
            yield f"{command} {instead}, without {' and '.join(left)}"


def keys_of(options: Iterable[GivenOption]) -> list[str]:
    """Return the names of options that are given."""
    return [setting.option.key for setting in options]


def read_study(command: str, options: Iterable[GivenOption], **arguments: Any) -> Study:
    """Return the study that these options make.

    Args:
        command: its name.
        options: what is set, in order; of one that is set twice the last counts, or all.
        arguments: the command's arguments, and where its result goes, by parameter; paths.

    Raises:
        GpuplanError: a value that cannot be meant; or an error of the parser of the command line.
    """
    reader = _reader(command)
    options = tuple(options)
    if not takes_trace(command, keys_of(options)):
        arguments.pop("trace", None)
    values: dict[str, Any] = {}
    for given_option in options:
        name, value = given_option.option.parameter, given_option.value
        values[name] = (*values.get(name, ()), *value) if isinstance(value, tuple) else value
    for parameter in reader.params:
        if parameter.name in arguments:
            paths = arguments[parameter.name]
            texts = tuple(map(str, [paths] if isinstance(paths, str | Path) else paths))
            takes_several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
            values[parameter.name] = texts if takes_several else texts[0]
    program = reader.context_class(TyperGroup(name="gpuplan"), info_name="gpuplan")
    with reader.context_class(reader, info_name=command, parent=program) as context:
        for parameter in _in_order(reader.params, values):
            parameter.handle_parse_result(context, values, [])
        study: Study = reader.callback(**context.params)
    return study


def run_study(command: str, options: Iterable[GivenOption], **arguments: Any) -> Report:
    """Return the report of a study; raises what its command would."""
    return read_study(command, options, **arguments).report()


def show_study(
    command: str, options: Mapping[str, Any], plot: Path | None = None, **arguments: Any
) -> None:
    """Run a study and show it as its command would.

    Args:
        command: its name.
        options: what is set, by key.
        plot: the picture to write.
        arguments: as for `read_study`.

    Raises:
        GpuplanError: what its command would raise.
    """
    study = read_study(command, given_options(command, options), **arguments)
    declared = _study_command(command)
    declared.show(declared.output() if plot is None else declared.output(plot=[plot]), study)


def check_study(command: str, options: Iterable[GivenOption], **arguments: Any) -> None:
    """Check the options of a study without its trace; raises what its command would."""
    read_study(command, options, **arguments).request.check()


def _in_order(parameters: Iterable[Any], values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the parameters that are given first, in their order: the first mistake is reported."""
    by_name = {parameter.name: parameter for parameter in parameters}
    yield from (by_name.pop(name) for name in values)
    yield from by_name.values()


@cache
def _reader(command: str) -> Any:
    """Return the parser of a study's options. Raises `UsageError` where there is none."""
    return _study_command(command).reader()


def _study_command(command: str) -> StudyCommand:
    """Return the command of a study. Raises `UsageError` where there is none."""
    if command not in COMMANDS:
        raise UsageError(f"no command {command!r}{did_you_mean(command, COMMANDS)}")
    declared = study_command(command)
    if declared is None:
        raise UsageError(f"gpuplan {command} is not a study, so it has no report")
    return declared


def _text(key: str, value: Any) -> str:
    """Return one value as text. Raises `UsageError` for lists, tables and true or false."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    if hasattr(value, "isoformat"):  # a date or time of TOML
        return str(value.isoformat())
    raise UsageError(f"{key}: expected a text or a number, found {value!r}")
