"""Errors for encodings and packings that cannot be read, with how to convert them."""

from __future__ import annotations

import shlex

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.archives import BZIP2_MAGIC, XZ_MAGIC, ZIP_MAGICS, is_tar
from gpuplan.analysis.reading.source import BYTE_ORDER_MARK, HEAD_BYTES, Head

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
LEAST_HEAD = HEAD_BYTES - len(BYTE_ORDER_MARK)  # a shorter head is the whole file


def odd_text(head: Head) -> InputError | None:
    """Return what to raise for an empty file, UTF-16 and old line ends; None for any other."""
    if len(head.data) < LEAST_HEAD and not head.data.strip():
        return InputError(
            head.path,
            "is empty",
            expected="a header and rows",
            hint="export it again, or name the file that holds it",
        )
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
        zeros, others = first[odd::2], first[1 - odd :: 2]
        if len(zeros) > 1 and not zeros.strip(b"\0") and b"\0" not in others:
            return encoding
    return None
