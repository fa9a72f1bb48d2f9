"""A command that is a study: its options make a request, its report shows the answer.

The command line, ``gpuplan report`` and ``gpuplan run`` make the same request of the same options
and call the same function with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.storage.files import is_stream
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.documents.write import check_folder, folder_made
from gpuplan.cli.formats.report import Report, StudyView
from gpuplan.cli.options.arguments import declare, option_reader
from gpuplan.cli.options.declared import parameters_of, read_request
from gpuplan.cli.options.outputs import check_output, check_suffix, frame_file, text_file
from gpuplan.cli.options.shared_options import (
    OUTPUTS,
    RESULT_FORMS,
    Output,
    OutputWithoutRows,
    ReplayOutput,
    command,
    result_files,
)
from gpuplan.planner.requests.declaration import StudyDeclaration, StudyRequest, declaration_of

COMPILING = "compiling this simulator, up to a minute (the first run of each)"

if TYPE_CHECKING:
    import typer


@dataclass(frozen=True, slots=True)
class Study:
    """A request with what makes a report of it.

    Attributes:
        request: what is asked of the library, a `StudyRequest`.
        answer: calls the library and returns the report.
    """

    request: Any
    answer: Callable[..., Report]

    def report(self) -> Report:
        """Return the report. Raises `GpuplanError` where there can be none."""
        return self.answer(self.request)


@dataclass(frozen=True, slots=True)
class StudyCommand:
    """A command that is a study.

    Attributes:
        declaration: what is known of the study.
        study: makes a study of the options, which are its parameters; its docstring is the help.
        output: the group of options that say where the report goes.
    """

    declaration: StudyDeclaration
    study: Callable[..., Study]
    output: type

    def register(self, app: typer.Typer) -> None:
        """Add the command to the application."""

        def show(**values: Any) -> None:
            self.show(values.pop("shown_as"), self.study(**values))

        options = inspect.signature(self.study).parameters.values()
        output = inspect.Parameter(
            "shown_as", inspect.Parameter.KEYWORD_ONLY, annotation=self.output
        )
        declare(show, self.study, [*options, output])
        command(app, self.declaration.name, example=self.declaration.example)(show)

    def reader(self) -> Any:
        """Return a click command that returns the study of its options and shows nothing."""
        return option_reader(self.declaration.name, self.study)

    def show(self, group: Any, study: Study) -> None:
        """Write the report of a study where its options of output say."""
        declared = self.declaration
        names = {option.name for option in fields(Output)}
        values = {option.name: getattr(group, option.name) for option in fields(group)}
        output = Output(**{name: value for name, value in values.items() if name in names})
        texts = {path: path.suffix.lower() for path in output.out or ()}
        texts = {
            path: suffix for path, suffix in texts.items() if suffix in self.declaration.more_forms
        }
        folders = self._folders(study.request, output)
        output = replace(
            output, out=[path for path in output.out or () if path not in (*texts, *folders)]
        )
        made = {folder / name: name for folder in folders for name in study.request.folder_files}
        for folder in folders:
            check_folder(folder, forms=())
        timeline: Path | None = values.get("timeline")
        check_output(
            output,
            picture=declared.has_picture,
            rows=declared.has_rows,
            inputs=study.request.reads,
            more_files=[
                *study.request.writes,
                *texts,
                *(path for path in made if path.parent.is_dir()),
                *([] if timeline is None else [timeline]),
            ],
            more=declared.more_forms,
        )
        check_suffix("--timeline", timeline, ".parquet")
        if timeline is not None and "timelines" in study.request.__dataclass_fields__:
            study = replace(study, request=replace(study.request, timelines=True))
        written = list(study.request.writes)
        if declared.draws_first and output.plot:
            pictures, output = tuple(output.plot), replace(output, plot=None)
            report = study.answer(study.request, pictures=pictures)
            written += pictures
        else:
            report = study.report()
        files = [text_file(report.texts[suffix], path) for path, suffix in texts.items()]
        if timeline is not None:
            assert report.timeline is not None
            files.append(frame_file(report.timeline, timeline))
        files += [text_file(report.texts[name], path) for path, name in made.items()]
        with ExitStack() as stack:
            for folder in folders:
                stack.enter_context(folder_made(folder))
            emit(report, output, files=files, written=written)
        if report.failure:
            raise InfeasibleError(report.failure)

    def _folders(self, request: StudyRequest, output: Output) -> list[Path]:
        """Return the folders among the outputs. Raises `UsageError` where there must be one."""
        if not request.folder_files:
            return []
        folders = [
            path
            for path in output.out or ()
            if path.is_dir() or (not path.suffix and not is_stream(path))
        ]
        if not folders:
            raise UsageError(
                f"--export: makes {listed(request.folder_files)} in a folder\n  next: -o out"
            )
        return folders


@cache
def study_command(name: str) -> StudyCommand | None:
    """Return the command of a study that is declared by its request; None where there is none.

    Its module in `gpuplan.cli.commands` is imported where there is an answer to show: ``show``
    makes what people see of it. Where it draws first, ``run`` of the module stands for the study's
    function and draws the ``pictures`` that it is given before a file is written.
    """
    declaration = declaration_of(name)
    if declaration is None:
        return None
    parameters = [parameter for parameter, _ in parameters_of(declaration.request).values()]

    def make(**values: Any) -> Study:
        request = read_request(declaration.request, values)
        return Study(request, partial(_answer, declaration))

    make.__doc__, make.__name__ = declaration.help, name
    declare(make, make, parameters)
    return StudyCommand(declaration, make, OUTPUTS.get(name) or _output_of(declaration))


def _output_of(declaration: StudyDeclaration) -> type:
    """Return the group of options that say where the report of a study goes."""
    usual: type = Output if declaration.has_rows else OutputWithoutRows
    if declaration.has_timeline:
        usual = ReplayOutput
    if not declaration.more_forms:
        return usual
    about = [f"{suffix} ({what})" for suffix, what in declaration.more_forms.items()]
    forms = Annotated[list[Path] | None, COMMON, result_files(", ".join([RESULT_FORMS, *about]))]
    return make_dataclass(usual.__name__, [("out", forms, None)], bases=(usual,), frozen=True)


def _answer(
    declaration: StudyDeclaration, request: StudyRequest, **pictures: Sequence[Path]
) -> Report:
    """Return the report of a request: the study's function, and what people see of its answer.

    An answer has ``parameters`` of its own where some are only known of the trace.
    """
    name = declaration.name
    shows = import_module(f"gpuplan.cli.commands.{name}")
    if declaration.draws_first:
        run = shows.run
    else:
        run = getattr(import_module(f"gpuplan.planner.studies.{name}"), name)
    with ExitStack() as during:
        progress = during.enter_context(messages.progress(declaration.doing))
        if declaration.compiles:
            from gpuplan.simkit.jit import compiling

            during.enter_context(compiling(lambda: messages.note(COMPILING)))
        takes_progress = "progress" in inspect.signature(run).parameters
        answer = run(request, *([progress] if takes_progress else []), **pictures)
    shown: StudyView = shows.show(answer)
    return Report(
        command=name,
        results=plain(answer.results),
        inputs=answer.inputs,
        parameters=plain(getattr(answer, "parameters", request.parameters)()),
        failure=getattr(answer, "failure", ""),
        **{
            **{field.name: getattr(shown, field.name) for field in fields(shown)},
            "warnings": (*shown.warnings, *answer.warnings),
            "caveats": (*getattr(answer, "caveats", ()), *shown.caveats),
        },
    )
