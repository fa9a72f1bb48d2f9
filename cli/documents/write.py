"""Write a document as files: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from gpuplan.analysis.base.errors import OutputError, UsageError
from gpuplan.analysis.storage.files import (
    atomic_output,
    check_writable,
    refuse_overwrite,
    without_missing_parents,
)
from gpuplan.cli.documents.contract import as_json, as_junit
from gpuplan.cli.documents.study import Document

FIGURES = "figures"


def _page(document: Document, *, is_markdown: bool = False) -> str:
    from gpuplan.cli.documents.pages import as_html, as_markdown

    return as_markdown(document) if is_markdown else as_html(document)


TEXTS: dict[str, Callable[[Document], str]] = {
    "html": _page,
    "md": partial(_page, is_markdown=True),
    "json": as_json,
    "junit": as_junit,
}
NAMES = {
    "html": "report.html",
    "md": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "svg": f"{FIGURES}/*.svg",
    "png": f"{FIGURES}/*.png",
}
"""What the files of a form are called."""
FORMS = tuple(NAMES)
"""What a document can be written as, by the names that options and scenario files use."""


def _contents(document: Document, form: str) -> Iterator[tuple[str, str | bytes]]:
    """Yield the files of a form with what they hold."""
    if form in TEXTS:
        yield NAMES[form], TEXTS[form](document)
        return
    for study in document.studies:
        for picture in study.pictures:
            drawn = picture.svg if form == "svg" else picture.png
            yield f"{FIGURES}/{picture.name}.{form}", drawn


def write_document(document: Document, folder: Path, forms: Sequence[str] = FORMS) -> list[Path]:
    """Write a document into a folder, which is made where it is missing; return the files.

    Everything is written under temporary names first, and renamed when all of it is there. What
    else is in the folder stays.

    Raises:
        OutputError: the folder cannot be made or written in, or there is no room.
    """
    folder = without_missing_parents(folder)
    contents = {name: text for form in forms for name, text in _contents(document, form)}
    with _folders(folder, [FIGURES] if forms_draw(forms) else []), ExitStack() as files:
        for name, text in contents.items():
            path = folder / name
            temporary = files.enter_context(atomic_output(path))
            try:
                temporary.write_bytes(text.encode() if isinstance(text, str) else text)
            except OSError as error:
                why = error.strerror or error
                raise OutputError(f"{path}: cannot be written: {why}") from error
    return [folder / name for name in contents]


def forms_draw(forms: Sequence[str]) -> bool:
    """Return whether pictures are among the forms."""
    return bool({"svg", "png"} & set(forms))


def hold_pictures(forms: Sequence[str]) -> bool:
    """Return whether any of the forms shows pictures."""
    return "html" in forms or forms_draw(forms)


def read_forms(text: str) -> list[str]:
    """Return the forms of a comma-separated list. Raises `UsageError` for what is none."""
    forms = [name.strip() for name in text.split(",")]
    for name in forms:
        if name not in FORMS:
            raise UsageError(f"--formats {name}: unknown form; expected one of {', '.join(FORMS)}")
    return list(dict.fromkeys(forms))


def is_plain_name(folder: Path) -> bool:
    """Return whether no part of a folder is taken for a formula, an option or more than a text."""
    return str(folder).isprintable() and not any(part[0] in "=+-@" for part in folder.parts)


PLAIN_NAME = "a name that no spreadsheet or shell takes for a formula or an option"


def check_folder(folder: Path, forms: Sequence[str] = FORMS, inputs: Iterable[Path] = ()) -> None:
    """Refuse a folder that cannot be written in, before the work; leave nothing behind.

    Args:
        folder: where the document goes.
        forms: as what.
        inputs: what it is made from; what is no file is passed over.

    Raises:
        UsageError: its name would be a formula or an option elsewhere, and it is not there yet.
        OutputError: it cannot be made or written in, or a file of the document is an input.
    """
    missing = [part.name for part in (folder, *folder.parents) if not os.path.exists(part)]
    if not is_plain_name(Path(*missing)):
        raise UsageError(f"--output {str(folder)!r}: expected {PLAIN_NAME}")
    folder = without_missing_parents(folder)
    within = [FIGURES] if forms_draw(forms) else []
    inputs = tuple(inputs)
    for attempt in range(ATTEMPTS):
        try:
            with suppress(_CheckedOnly), _folders(folder, within):
                existing = [path for form in forms for path in sorted(folder.glob(NAMES[form]))]
                refuse_overwrite(existing, inputs)
                for path in (*(folder / name / "report" for name in ("", *within)), *existing):
                    check_writable(path)
                raise _CheckedOnly
        except OutputError:
            # Another run may have taken away a folder that it made for its own check.
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


@contextmanager
def folder_made(folder: Path) -> Iterator[None]:
    """Make a folder where it is missing; take it away again if the block fails."""
    with _folders(without_missing_parents(folder), ()):
        yield


ATTEMPTS = 5  # to make a folder beside another run


class _CheckedOnly(Exception):
    """Leaves an output before anything is written."""


@contextmanager
def _folders(folder: Path, within: Sequence[str]) -> Iterator[None]:
    """Make a folder and those within it; take away what was made if the block fails."""
    made: list[Path] = []
    try:
        for path in (*reversed(folder.parents), folder, *(folder / name for name in within)):
            if not os.path.isdir(path):
                _make(path, made)
        yield
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise


def _make(path: Path, made: list[Path]) -> None:
    """Make a folder and note it in ``made``.

    Another run may make it, or take away what it made for its check, at the same time.
    """
    for attempt in range(ATTEMPTS):
        try:
            path.mkdir()
        except FileExistsError:
            if os.path.isdir(path):
                return
            raise OutputError(
                f"{path}: is a file, not a folder\n"
                "  next: name another folder with -o, or remove the file"
            ) from None
        except FileNotFoundError as error:
            if attempt == ATTEMPTS - 1:
                raise OutputError(f"{path}: cannot be made: {error.strerror}") from error
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise OutputError(f"{path}: cannot be made: {why}") from error
        else:
            made.append(path)
            return
