"""What a scenario file declares, checked: a workload, studies of it, documents, gates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpuplan.analysis.base.errors import GpuplanError, UsageError
from gpuplan.analysis.storage.files import files_named_in
from gpuplan.cli.app.main import CLICK_ERROR
from gpuplan.cli.app.parser_errors import usage_message
from gpuplan.cli.documents.studies import Given, keys_of, takes_trace, words_of

FLAG = re.compile(r"--([a-z][a-z-]*)")
NEXT_ERROR = "\nerror: "  # each line of several then reads like an error of its own


class ScenarioError(GpuplanError):
    """A scenario has mistakes; the message names the place of each."""

    def __init__(self, problems: Sequence[tuple[str, GpuplanError]]) -> None:
        """Take each problem with its place."""
        super().__init__(
            NEXT_ERROR.join(dict.fromkeys(f"{at}: {problem}" for at, problem in problems))
        )
        self.problems = tuple(problems)
        self.exit_code = problems[0][1].exit_code


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Where a scenario says something.

    Attributes:
        table: where its table begins.
        options: option -> where it is given.
    """

    table: str
    options: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Raise errors about options with the place of the first option they name.

        Raises:
            ScenarioError: a `GpuplanError`, or an error of the parser of the command line.
        """
        try:
            yield
        except GpuplanError as error:
            raise ScenarioError([(self.of(str(error)), error)]) from error
        except CLICK_ERROR as error:
            problem = UsageError(usage_message(error).partition("\n")[0])  # no other --help
            raise ScenarioError([(self.of(str(problem)), problem)]) from error

    def of(self, message: str) -> str:
        """Return the place of what a message is about."""
        for flag in FLAG.findall(message):
            if flag.replace("-", "_") in self.options:
                return self.options[flag.replace("-", "_")]
        return self.table


@dataclass(frozen=True, slots=True)
class DeclaredWorkload:
    """The jobs that all studies are of.

    Attributes:
        command: ``ingest`` or ``synth``, which makes the trace; empty where there is one already.
        files: the logs that it reads.
        options: what else that command is given, but for its output.
        trace: the trace, relative to the scenario; where it is made, what documents call it; empty
            where no study takes one.
        places: where it is declared.
    """

    command: str
    files: tuple[str, ...]
    options: Given
    trace: str
    places: KeyPlaces

    @property
    def log(self) -> str:
        """What the user calls the jobs: the log or the trace, or of several logs the trace."""
        return self.files[0] if len(self.files) == 1 else self.trace

    @property
    def arguments(self) -> tuple[str, ...]:
        """The files and options as they are written on a command line."""
        return (*self.files, *words_of(self.options))


@dataclass(frozen=True, slots=True)
class DeclaredStudy:
    """One command on the workload.

    Attributes:
        name: what documents and gates call it.
        command: the command.
        options: what it is given.
        places: where it is declared.
    """

    name: str
    command: str
    options: Given
    places: KeyPlaces

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options as they are written on a command line."""
        return words_of(self.options)

    @property
    def takes_trace(self) -> bool:
        """Whether it is of the workload; otherwise its options name all that it reads."""
        return takes_trace(self.command, keys_of(self.options))


@dataclass(frozen=True, slots=True)
class Documents:
    """What is written, and where.

    Attributes:
        folder: where, relative to the scenario.
        forms: some of `gpuplan.cli.documents.write.FORMS`.
    """

    folder: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario.

    Attributes:
        path: the file; every other path is relative to its folder.
        title: what its documents are called.
        workload: the jobs.
        studies: in the order of the file.
        documents: None where none are asked for.
        gates: conditions on the fields of the studies.
        warning_gates: those that only warn.
        warnings: what has no effect.
        notes: which studies are not of the period of the others.
    """

    path: Path
    title: str
    workload: DeclaredWorkload
    studies: tuple[DeclaredStudy, ...]
    documents: Documents | None
    gates: tuple[str, ...]
    warning_gates: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that paths in the scenario are relative to."""
        return self.path.absolute().parent

    @property
    def inputs(self) -> list[Path]:
        """The file, and what may be files that it names for its trace and its studies."""
        named = [
            self.workload.trace,
            *self.workload.arguments,
            *(text for study in self.studies for text in study.arguments),
        ]
        return [self.path, *files_named_in(*named, folder=self.folder)]
