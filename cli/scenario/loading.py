"""From a scenario file to a checked `Scenario`; all mistakes are reported with their lines."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import GpuplanError, UsageError
from gpuplan.analysis.base.lookup import did_you_mean
from gpuplan.analysis.storage.files import existing_file, is_parquet
from gpuplan.analysis.storage.toml_source import Keys
from gpuplan.cli.documents.studies import (
    SPEND,
    Given,
    GivenOption,
    check_study,
    given_options,
    left_out,
    study_options,
    takes_trace,
)
from gpuplan.cli.documents.view import titles
from gpuplan.cli.documents.write import FORMS, PLAIN_NAME, is_plain_name
from gpuplan.cli.gates.conditions import read_condition
from gpuplan.cli.scenario.scenario import (
    DeclaredStudy,
    DeclaredWorkload,
    Documents,
    KeyPlaces,
    Scenario,
    ScenarioError,
)
from gpuplan.cli.scenario.shared_options import SECTIONS, Common, setting_names
from gpuplan.cli.scenario.source import ScenarioSource, read_source
from gpuplan.planner.requests.declaration import NEEDS_TABLE
from gpuplan.planner.requests.settings import parse_settings, removed_hint

WORKLOADS = ("trace", "log", "synth")
TOP = ("title", "workload", "prices", "speedups", "clouds", "policies", "study", "output", "gates")
NAME = re.compile(r"\w+", re.ASCII)


def load_scenario(path: Path, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario and check it, up to where its studies read the trace.

    Args:
        path: the TOML file.
        overrides: ``a.b=value``, each in place of what the file says.

    Raises:
        InputError: no such file, or it is not TOML.
        ScenarioError: keys or values that cannot be meant, each with its line.
        UsageError: an override that is none.
    """
    loader = _Loader(read_source(path, overrides))
    with chdir(path.absolute().parent):
        scenario = loader.scenario()
    if loader.problems:
        raise ScenarioError(sorted(loader.problems, key=_line))
    return scenario


class _Loader:
    """Reads the sections of one file and gathers what is wrong with them."""

    def __init__(self, source: ScenarioSource) -> None:
        """Take the file."""
        self.source = source
        self.problems: list[tuple[str, GpuplanError]] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def scenario(self) -> Scenario:
        """Return the scenario; it means something where no problem was found."""
        data = self.source.data
        self.check_keys((), data, TOP)
        workload = self.workload()
        studies = self.studies(workload)
        gates = self.table("gates")
        self.check_keys(("gates",), gates, ("fail_if", "warn_if"))
        return Scenario(
            path=self.source.path,
            title=self.text((), data, "title") or self.source.path.stem,
            workload=workload,
            studies=studies,
            documents=self.documents(),
            gates=self.gates("fail_if", gates.get("fail_if", []), studies),
            warning_gates=self.gates("warn_if", gates.get("warn_if", []), studies),
            warnings=tuple(self.warnings),
            notes=tuple(self.notes),
        )

    def workload(self) -> DeclaredWorkload:
        """Read where the jobs come from; the other keys of the section are handed to studies."""
        table = self.table("workload")
        if not table and self.needs_no_trace():
            return DeclaredWorkload("", (), (), "", KeyPlaces(""))
        self.check_keys(("workload",), table, (*WORKLOADS, *SECTIONS["workload"]))
        sources = [name for name in WORKLOADS if name in table]
        sources = [name for name in sources if self.is_overridden(("workload", name))] or sources
        if len(sources) != 1:
            named = " and ".join(sources) or "none"
            expected = f"[workload] expected one of {', '.join(WORKLOADS)}; found {named}"
            self.problem(("workload",), expected)
        elif sources[0] == "trace":
            trace = self.text(("workload",), table, "trace") or ""
            with self.placed(("workload", "trace")):
                if not is_parquet(Path(trace)):  # a log, or a folder of them
                    return self.made("ingest", "trace", [trace], {}, Path(trace).name)
            return DeclaredWorkload(
                "", (), (), trace, KeyPlaces(self.source.place(("workload", "trace")))
            )
        else:
            value = table[sources[0]]
            options = value if isinstance(value, dict) else {"file": value}
            return self.log(options) if sources[0] == "log" else self.synth(options)
        return DeclaredWorkload("", (), (), "", KeyPlaces(""))

    def log(self, options: Mapping[str, Any]) -> DeclaredWorkload:
        """Read a log that is to be ingested: its files and the options of ``gpuplan ingest``."""
        named = options.get("file", [])
        files = [str(file) for file in (named if isinstance(named, list) else [named])]
        with self.placed(("workload", "log")):
            if not files:
                raise UsageError("log: expected the file, or { file = ..., and options }")
            for file in files:
                if not os.path.isdir(file):  # all the logs in it
                    existing_file(Path(file))
        rest = {key: value for key, value in options.items() if key != "file"}
        return self.made("ingest", "log", files, rest, Path(files[0]).name if files else "log")

    def study_tables(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the tables of studies by name, unchecked."""
        tables = self.table("study").items()
        return [(name, table) for name, table in tables if isinstance(table, dict)]

    def needs_no_trace(self) -> bool:
        """Return whether there are studies, and every one names all that it reads."""
        commands = [(str(table.get("command", name)), table) for name, table in self.study_tables()]
        return bool(commands) and all(
            command in titles() and not takes_trace(command, table) for command, table in commands
        )

    def synth(self, options: Mapping[str, Any]) -> DeclaredWorkload:
        """Read a trace that is to be synthesized: the options of ``gpuplan synth``."""
        with self.placed(("workload", "synth")):
            if len({"preset", "like", "model"} & options.keys()) != 1:
                raise UsageError("synth: expected one of preset, like and model")
            if "jobs" not in options:
                raise UsageError("synth: expected jobs = how many to draw")
        return self.made("synth", "synth", [], options, str(options.get("preset", "synth")))

    def made(
        self, command: str, key: str, files: list[str], options: Mapping[str, Any], name: str
    ) -> DeclaredWorkload:
        """Return a workload that a command makes."""
        keys = ("workload", key)
        places = {option: self.source.place((*keys, option)) for option in options}
        return DeclaredWorkload(
            command,
            tuple(files),
            self.options_given(command, options, keys),
            f"{name.partition('.')[0]}.parquet",
            KeyPlaces(self.source.place(keys), places),
        )

    def studies(self, workload: DeclaredWorkload) -> tuple[DeclaredStudy, ...]:
        """Read the studies, and check each as its command would before it reads the trace."""
        sections = {name: self.shared(name) for name in SECTIONS}
        common = Common(sections, self.clouds(), self.policies())
        unused = {SECTIONS[name][key]: (name, key) for name in sections for key in sections[name]}
        studies = []
        tables = self.table("study", "[study.NAME]")
        if "study" not in self.source.data:
            self.problem((), "expected a study, as [study.pareto]")
        for name, table in tables.items():
            keys = ("study", name)
            if not isinstance(table, dict):
                self.problem(keys, f"expected a table [study.NAME]; found {name} = {table!r}")
                continue
            options = dict(table)
            command = options.pop("command", name)
            if not NAME.fullmatch(name):
                self.problem(keys, f"[study.{name}] expected a name of letters, digits and _")
            if not isinstance(command, str) or command not in titles():
                near = did_you_mean(str(command), dict.fromkeys(titles()))
                if command == SPEND:
                    near = '\n  next: command = "forecast" and spend = true'
                elif "command" not in table:
                    near = f'{near}\n  next: command = "...", where the name is another'
                self.problem((*keys, "command"), f"[study.{name}] no command {command!r}{near}")
                continue
            study = self.study(name, command, options, common)
            studies.append(study)
            if study.takes_trace:
                left = left_out(command, sections["workload"])
                self.notes += (f"study {name}: {note} of [workload]" for note in left)
            for option in common.options_of(command, options):
                unused.pop(option, None)
            trace = workload.trace or "trace.parquet"
            with self.placed(), study.places.located():
                check_study(command, study.options, trace=trace)
        for section, key in unused.values():
            at = self.source.place((section, key))
            wrong = f"no study takes [{section}] {key}"
            if section == "prices" and key in NEEDS_TABLE and "file" not in sections[section]:
                wrong = f"[prices] {key} has no effect without file, the price table"
            self.warnings.append(f"{at}: {wrong}")
        return tuple(studies)

    def study(
        self, name: str, command: str, options: dict[str, Any], common: Common
    ) -> DeclaredStudy:
        """Return a study with what it takes of what is given for all."""
        handed = common.options_of(command, options)
        declared = study_options(command)
        stated = {
            key: value
            for key, value in options.items()
            # false, for what takes a value, is that it is not given here
            if value is not False or key not in handed or declared[key].is_flag
        }
        handed = {key: value for key, value in handed.items() if key not in options}
        settings = common.settings_of(command, handed | stated)
        sizes = common.cluster_of(command, handed | stated)
        chosen = (
            *self.options_given(command, handed, ()),
            *(given_options(command, {"set": settings}) if settings else ()),
            *(option for size in sizes for option in given_options(command, {"cluster": size})),
            *self.options_given(command, stated, ("study", name)),
        )
        return DeclaredStudy(name, command, chosen, self.places(name, options))

    def options_given(self, command: str, options: Mapping[str, Any], keys: Keys) -> Given:
        """Return options as a study takes them; a table is a repeated ``key=value``."""
        chosen: list[GivenOption] = []
        declared = study_options(command)
        for key, value in options.items():
            with self.placed((*keys, key) if keys else self.shared_keys(key)):
                if isinstance(value, dict) and key in declared and declared[key].multiple:
                    value = [f"{inner}={_text(each)}" for inner, each in value.items()]
                chosen += given_options(command, {key: value})
        return tuple(chosen)

    def places(self, name: str, options: Mapping[str, Any]) -> KeyPlaces:
        """Return where a study says what it says, and where others say it for it."""
        shared = {
            option: self.source.place((section, key))
            for section, keys in SECTIONS.items()
            for key, option in keys.items()
            if key in self.table(section)
        }
        stated = {key: self.source.place(("study", name, key)) for key in options}
        return KeyPlaces(self.source.place(("study", name)), shared | stated)

    def shared_keys(self, option: str) -> Keys:
        """Return where a section gives an option."""
        return next(
            (section, key)
            for section, keys in SECTIONS.items()
            for key, name in keys.items()
            if name == option
        )

    def shared(self, section: str) -> dict[str, Any]:
        """Return what a section hands to the studies."""
        table = self.table(section)
        if section != "workload":
            self.check_keys((section,), table, SECTIONS[section])
        return {key: value for key, value in table.items() if key in SECTIONS[section]}

    def clouds(self) -> dict[str, str]:
        """Read the settings of all policies."""
        table = self.table("clouds")
        if not table:
            return {}
        return self.settings(("clouds",), table, frozenset().union(*setting_names().values()))

    def policies(self) -> dict[str, dict[str, str]]:
        """Read the settings of single policies."""
        settings = {}
        for name, table in self.table("policies", "[policies.NAME]").items():
            keys = ("policies", name)
            if not isinstance(table, dict):
                self.problem(keys, f"[policies] expected a table [policies.{name}]")
            elif name not in setting_names():
                self.problem(keys, f"no policy {name!r}{did_you_mean(name, setting_names())}")
            else:
                settings[name] = self.settings(keys, table, setting_names()[name])
        return settings

    def settings(
        self, keys: Keys, table: Mapping[str, Any], names: Collection[str]
    ) -> dict[str, str]:
        """Return settings as texts, each checked by the first policy that has it."""
        from gpuplan.planner.registry import POLICIES, find_policy

        self.check_keys(keys, table, names)
        if {"cluster", "gpus"} <= table.keys():
            where = f"[{'.'.join(keys)}]"
            self.problem((*keys, "gpus"), f"{where} cluster and gpus: give one of the two")
        texts = {}
        for key in table.keys() & names:
            policies = [find_policy(keys[1])] if len(keys) > 1 else POLICIES.values()
            settings = next(policy.settings for policy in policies if key in policy.settings)
            with self.placed((*keys, key)):
                parse_settings([f"{key}={_text(table[key])}"], settings)
                texts[key] = _text(table[key])
        return {key: texts[key] for key in table if key in texts}

    def documents(self) -> Documents | None:
        """Read what is written."""
        table = self.table("output")
        if not table:
            return None
        self.check_keys(("output",), table, ("dir", "formats"))
        folder = self.text(("output",), table, "dir")
        if not folder:
            self.problem(("output",), "[output] expected dir = the folder to write to")
        elif not is_plain_name(Path(folder)):
            self.problem(("output", "dir"), f"[output] dir = {folder!r}: expected {PLAIN_NAME}")
        forms = table.get("formats", list(FORMS))
        forms = forms if isinstance(forms, list) else [forms]
        for form in forms:
            if not isinstance(form, str) or form not in FORMS:
                near = did_you_mean(str(form), FORMS)
                self.problem(("output", "formats"), f"[output] no format {form!r}{near}")
        return Documents(folder or "", tuple(map(str, forms)))

    def gates(self, key: str, value: Any, studies: Sequence[DeclaredStudy]) -> tuple[str, ...]:
        """Read the conditions."""
        is_known = len(studies) == len(self.table("study"))  # else that is the mistake to report
        commands = {study.name: study.command for study in studies if is_known}
        conditions = value if isinstance(value, list) else [value]
        for condition in conditions:
            with self.placed(("gates", key)):
                if not isinstance(condition, str):
                    raise UsageError(f"{key}: expected texts in quotes, found {condition!r}")
                read_condition(condition, commands, f"--{key.replace('_', '-')}")
        return tuple(map(str, conditions))

    def table(self, name: str, form: str = "") -> dict[str, Any]:
        """Return a section; an empty one where there is none."""
        section = self.source.data.get(name, {})
        if isinstance(section, dict):
            return section
        self.problem((name,), f"{name}: expected {form or f'[{name}]'}")
        return {}

    def text(self, keys: Keys, table: Mapping[str, Any], key: str) -> str | None:
        """Return a text; None where there is none."""
        value = table.get(key)
        if value is None or isinstance(value, str):
            return value
        self.problem((*keys, key), f"{key}: expected a text in quotes, found {value!r}")
        return None

    def check_keys(self, keys: Keys, table: Mapping[str, Any], names: Collection[str]) -> None:
        """Report the keys of a table that mean nothing, with the nearest that does."""
        where = f"[{'.'.join(keys)}] " if keys else ""
        for key in table:
            if key not in names:
                near = removed_hint(key, str(table[key])) if keys else ""
                near = near or did_you_mean(key, dict.fromkeys(names))
                self.problem((*keys, key), f"{where}no key {key!r}{near}")

    def is_overridden(self, keys: Keys) -> bool:
        """Return whether an override gives this value, or one in it."""
        return any(path[: len(keys)] == keys for path in self.source.overridden)

    def problem(self, keys: Keys, message: str) -> None:
        """Keep a mistake with its place."""
        self.problems.append((self.source.place(keys), UsageError(message)))

    @contextmanager
    def placed(self, keys: Keys = ()) -> Iterator[None]:
        """Add the place to an error raised inside that names none."""
        try:
            yield
        except ScenarioError as error:
            self.problems += error.problems
        except GpuplanError as error:
            self.problems.append((self.source.place(keys), error))


def _line(problem: tuple[str, GpuplanError]) -> int:
    """Return the line of a problem; overrides come first."""
    line = problem[0].rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _text(value: Any) -> str:
    """Return a value of TOML as it stands on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "/".join(map(_text, value)) if isinstance(value, list) else str(value)
