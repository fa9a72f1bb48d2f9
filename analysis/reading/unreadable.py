"""Errors for files that cannot be read: encodings, packings, and headers of no known format."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import a_log
from gpuplan.analysis.reading.archives import (
    BZIP2_MAGIC,
    XZ_MAGIC,
    ZIP_MAGICS,
    is_tar,
    workbook,
)
from gpuplan.analysis.reading.source import (
    BYTE_ORDER_MARK,
    HEAD_BYTES,
    SEPARATORS,
    Head,
    likely_separator,
)
from gpuplan.analysis.reading.times import ISO, is_number

PACKED = {
    BZIP2_MAGIC: "a bzip2 file",
    XZ_MAGIC: "an xz file",
    **dict.fromkeys(ZIP_MAGICS, "a zip archive in another"),
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a rar archive",
}
"""First bytes -> kind of packed file; plain zip archives are read and not listed here."""
UNPACK = {"a tar archive": "tar xf", "a bzip2 file": "bunzip2 -k", "an xz file": "unxz -k"}
WIDE_MARKS = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
LOOK_BYTES = 512
HTML = (b"<!doctype html", b"<html")
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # .xls and other old office documents
LEAST_HEAD = HEAD_BYTES - len(BYTE_ORDER_MARK)  # a shorter head is the whole file
MIN_CELLS = 2  # of a table; fewer are prose
WRITTEN = {"\t": r"\t"}


def odd_text(head: Head) -> InputError | None:
    """Return what to raise for an empty file, UTF-16 and old line ends; None for any other."""
    if len(head.data) < LEAST_HEAD and not head.data.strip():
        return InputError(
            head.path,
            "is empty",
            expected="a header and rows",
            hint="export it again, or name the file that holds it",
        )
    if (document := _document(head)) is not None:
        return document
    if (packed := _packed(head)) is not None:
        return packed
    if (encoding := _wide_encoding(head.data)) is not None:
        return InputError(
            head.path,
            "is UTF-16 text",
            expected="UTF-8",
            hint=f"convert it: iconv -f {encoding} -t UTF-8 {head.path} > utf8.csv",
        )
    if head.is_parquet:
        return InputError(
            head.path,
            "is a Parquet file",
            expected="text",
            hint="leave out --source-format, or name its columns: --source-format csv "
            "--map submit_time=COLUMN --map num_gpus=COLUMN ...",
        )
    if b"\r" in head.data.strip() and b"\n" not in head.data and not head.is_json:
        return InputError(
            head.path,
            "has carriage returns as line ends",
            expected="a line feed at the end of each line",
            hint=f"convert it: tr '\\r' '\\n' < {head.path} > lines.csv",
        )
    return None


def _document(head: Head) -> InputError | None:
    """Return the error for a file of an office program, or a page of a website."""
    if head.data.startswith(OLE_MAGIC):
        return workbook(head.path)
    if head.data.lstrip()[:LOOK_BYTES].lower().startswith(HTML):
        return InputError(
            head.path,
            "is a web page (HTML)",
            expected="the file itself",
            hint="download it again; where a login is needed, its page comes in place of the file",
        )
    return None


def _packed(head: Head) -> InputError | None:
    """Return the error for a packing that is not supported."""
    what = "a tar archive" if is_tar(head.data) else None
    for magic, name in PACKED.items():
        if head.data.startswith(magic):
            what = name
    if what is None:
        return None
    is_file = head.path.is_file()  # not a pipe, or the member of an archive
    name = shlex.quote(str(head.path))
    command = UNPACK.get(what, "") if is_file else ""
    return InputError(
        head.path,
        f"is {what}",
        expected="plain text, gzip, zstd, or a zip or tar archive of them",
        hint=f"unpack it: {command} {name}" if command else "unpack it, and give what was in it",
    )


def _wide_encoding(data: bytes) -> str | None:
    """Return the name of a UTF-16 encoding; without its mark, by every other byte being 0."""
    if data[:2] in WIDE_MARKS:
        return WIDE_MARKS[data[:2]]
    first = data[:LOOK_BYTES]
    for odd, encoding in ((1, "UTF-16LE"), (0, "UTF-16BE")):
        zeros, low_bytes = first[odd::2], first[1 - odd :: 2]
        if len(zeros) > 1 and not zeros.strip(b"\0") and b"\0" not in low_bytes:
            return encoding
    return None


def header_error(head: Head, formats: Mapping[str, Sequence[str]]) -> InputError | None:
    """Return the error for a table with other separators, or without a header; else None.

    Args:
        head: of a file without a known format, or not of the one that the user named.
        formats: name -> required columns of a log.
    """
    names = head.table_columns
    if head.line is None or len(names) < MIN_CELLS:
        return None
    separator = likely_separator(head.line)
    complete = [(len(columns), name) for name, columns in formats.items()
             if columns and set(columns) <= set(names)]  # fmt: skip
    if separator != "," and complete:
        return _separated(head, separator, max(complete)[1])
    if not _is_data(names):
        return None
    needed = next(iter(formats.values())) if len(formats) == 1 else ()
    mark = separator if head.line.count(separator) >= MIN_CELLS - 1 else ","
    header = mark.join(needed if len(needed) == len(names) else ("NAME", "NAME", "..."))
    again = "run sacct again without -n, or " if mark == "|" else ""
    return InputError(
        head.path,
        f"{'' if needed else 'unrecognized log format: '}has no header; it starts with "
        f"{head.shown()}",
        expected="the names of the columns in the first line"
        + (f", {', '.join(needed)} among them" if needed else ""),
        hint=f"{again}put them before it: (echo '{header}'; cat {_quoted(head)}) > headed.csv",
    )


def _separated(head: Head, separator: str, name: str) -> InputError:
    mark = WRITTEN.get(separator, separator)
    has_commas = b"," in head.data
    by_hand = "save it again with commas between the cells"
    command = f"convert it: tr '{mark}' ',' < {_quoted(head)} > commas.csv"
    return InputError(
        head.path,
        f"is {a_log(name)} whose cells are separated by {SEPARATORS[separator]} ('{mark}')",
        expected="commas",
        hint=f"{by_hand}, and quotes around cells that hold one" if has_commas else command,
    )


def _is_data(cells: Sequence[str]) -> bool:
    """Return whether a first line has values: any time, or numbers in half of the cells."""
    numbers = sum(is_number(cell) for cell in cells)
    return 2 * numbers >= len(cells) or any(_is_time(cell) for cell in cells)


def _is_time(cell: str) -> bool:
    match = ISO.match(cell)
    return match is not None and match["sep"] is not None


def _quoted(head: Head) -> str:
    return shlex.quote(str(head.path))
