"""The help: common options on one screen with ``--help``, all of them with ``--help-all``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.cli.app.option_text import (
    FALLBACK,
    OptionText,
    arguments_of,
    by_panel,
    options_of,
    usage_of,
)

if TYPE_CHECKING:
    from rich.text import Text

WIDEST_PAGE = 100
WIDEST_LABEL = 26
INDENT = "  "


def show_command_help(command: Any, path: str, *, everything: bool = False) -> None:
    """Write the help of a command called as ``path``: every option, or only the common ones."""
    options = options_of(command)
    shown = [option for option in options if everything or option.is_common]
    page = HelpPage()
    page.heading("Usage:", usage_of(command, path))
    page.paragraphs(command.help)
    sections = {"Arguments": arguments_of(command), **by_panel(shown)}
    page.sections(
        {
            title: [(_label(option), option.text) for option in members]
            for title, members in sections.items()
            if members
        }
    )
    page.line("[bold]Example:[/bold]")
    page.line(f"{INDENT}{command.epilog.removeprefix('Example: ')}", keep=True)
    if not everything:
        page.line(f"All {len(options)} options: [cyan]{path} --help-all[/cyan]")


def show_program_help(
    group: Any, groups: Mapping[str, Iterable[str]], about: Mapping[str, str]
) -> None:
    """Write the help of the program: commands under their titles, each with its first sentence."""
    page = HelpPage()
    page.heading("Usage:", f"{group.name} COMMAND [OPTIONS]")
    page.paragraphs(group.help)
    sections = {title: [(name, about[name]) for name in names] for title, names in groups.items()}
    flags = [(_label(option), option.text) for option in options_of(group)]
    flags.append(("--help, -h", "Show this page."))
    page.sections({**sections, FALLBACK: flags})
    page.line(group.epilog)
    page.line("Options of a command: [cyan]gpuplan COMMAND --help[/cyan]")


def _label(option: OptionText) -> str:
    """Return an option as it is typed, with a placeholder of its value."""
    return f"{', '.join(option.flags)} {option.value}".strip()


class HelpPage:
    """Standard output, written as a page of titles and two columns."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.text import Text

        self._text = Text
        self._console = Console(highlight=False)
        self._width = min(self._console.width, WIDEST_PAGE)

    def heading(self, title: str, text: str) -> None:
        """Write a title with what belongs to it on the same line."""
        self._write(self._text.assemble((title, "bold"), " ", text))

    def paragraphs(self, text: str) -> None:
        """Write paragraphs, with an empty line before each."""
        for paragraph in inspect.cleandoc(text).split("\n\n"):
            self._write("")
            self._write_wrapped(" ".join(paragraph.split()))

    def sections(self, sections: Mapping[str, list[tuple[str, str]]]) -> None:
        """Write sections of labels and texts; the texts of all sections start in one column."""
        labels = [len(label) for rows in sections.values() for label, _ in rows]
        width = max((label for label in labels if label <= WIDEST_LABEL), default=0)
        for title, rows in sections.items():
            self._write("")
            self._write(self._text(title, style="bold"))
            for label, text in rows:
                self._row(label, text, width)
        self._write("")

    def line(self, markup: str, *, keep: bool = False) -> None:
        """Write a line; ``keep`` leaves its folding to the terminal, so that it can be copied."""
        if keep:
            self._write(self._text.from_markup(markup))
        else:
            self._write_wrapped(markup)

    def _row(self, label: str, markup: str, width: int) -> None:
        before = len(INDENT) + width + 2
        left = self._text(f"{INDENT}{label}", style="cyan")
        lines = self._wrapped(markup, self._width - before)
        if len(label) > width:
            self._write(left)
        else:
            left.pad_right(before - len(left))
            self._write(left.append_text(lines.pop(0)) if lines else left)
        for line in lines:
            self._write(self._text(" " * before).append_text(line))

    def _write_wrapped(self, markup: str) -> None:
        for line in self._wrapped(markup, self._width):
            self._write(line)

    def _wrapped(self, markup: str, width: int) -> list[Text]:
        lines = self._text.from_markup(markup).wrap(self._console, max(width, 20))
        for line in lines:
            line.rstrip()
        return list(lines)

    def _write(self, text: str | Text) -> None:
        self._console.print(text, soft_wrap=True)
