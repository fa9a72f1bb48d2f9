"""Archives, zip and tar: their members, and one member as a stream."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import BadZipFile, ZipFile

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.limits import (
    MOST_DIRECTORY_BYTES,
    MOST_HEADER_BYTES,
    MOST_MEMBERS,
    MOST_RATIO,
    most_unpacked,
    shown_size,
)

ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
GZIP_MAGIC = b"\x1f\x8b"
BZIP2_MAGIC = b"BZh"
XZ_MAGIC = b"\xfd7zXZ\x00"
PACKERS: dict[bytes, Callable[[Path], io.BufferedIOBase]] = {
    GZIP_MAGIC: gzip.GzipFile,
    BZIP2_MAGIC: bz2.BZ2File,
    XZ_MAGIC: lzma.LZMAFile,
}
ZIP_END, ZIP64_END = b"PK\x05\x06", b"PK\x06\x06"
ZIP_END_BYTES = (1 << 16) + 256  # a comment, and what ends the archive
WORKBOOK = "xl/workbook.xml"  # a member of every workbook of Excel
TAR_MAGIC = b"ustar"
TAR_MAGIC_AT = 257
BLOCK_BYTES = 512
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive.

    Attributes:
        name: its name there.
        size: its bytes.
        stored: its size in the archive; in a packed tar archive, the size of the archive.
        start: where its bytes begin in a tar archive, unpacked.
    """

    name: str
    size: int
    stored: int
    start: int = 0


def is_tar(data: bytes) -> bool:
    """Return whether the first bytes, decompressed, are those of a tar archive."""
    return data[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] == TAR_MAGIC


def archive_kind(file: Path) -> str | None:
    """Return ``zip`` or ``tar`` (also compressed by gzip, bzip2 or xz); None for other files."""
    with file.open("rb") as stream:
        start = stream.read(BLOCK_BYTES)
    if start.startswith(ZIP_MAGICS):
        return "zip"
    for magic, unpack in PACKERS.items():
        if start.startswith(magic):
            try:
                with unpack(file) as packed:
                    start = packed.read(BLOCK_BYTES)
            except DAMAGE:
                return None  # reading it reports the error
    return "tar" if is_tar(start) else None


def members_of(path: Path, file: Path, kind: str) -> list[Member]:
    """Return the files in an archive in the order of their names.

    Raises:
        InputError: the archive at ``path`` is damaged, has no files, has
            too many, or holds more than its size can mean.
    """
    most = most_unpacked(file.stat().st_size)
    members: list[Member] = []
    size = 0
    try:
        for member in _zip_members(path, file) if kind == "zip" else _tar_members(file):
            members.append(member)
            size += member.size
            if len(members) > MOST_MEMBERS:
                raise _too_many(path)
            if size > most:
                raise unpacks_to_too_much(path, most)
    except (*DAMAGE, ValueError, NotImplementedError) as error:
        problem = f"is a damaged {kind} file ({error})"
        raise InputError(path, problem, hint="fetch it again") from error
    if not members:
        raise InputError(path, f"is a {kind} file with no file in it", expected="a log in it")
    return sorted(members, key=lambda member: member.name)


def workbook(path: Path) -> InputError:
    """Return the error for a workbook of Excel, which is a zip archive but no log."""
    return InputError(
        path,
        "is an Excel workbook",
        expected="CSV, JSON, JSON lines or Parquet",
        hint="open it, and save the sheet with the rows as CSV (UTF-8)",
    )


def unpacks_to_too_much(path: Path, most: int) -> InputError:
    """Return the error for packed data that is far larger than its stored size can mean."""
    return InputError(
        path,
        f"unpacks to more than {shown_size(most)}, over {MOST_RATIO} times its size",
        hint="unpack it yourself if that is meant, and give the file",
    )


def open_member(file: Path, kind: str, member: Member) -> BinaryIO:
    """Open a member, unpacked."""
    if kind == "zip":
        with ZipFile(file) as archive:  # the member keeps its file open
            return cast(BinaryIO, archive.open(member.name))
    return cast(BinaryIO, _TarMember(file, member))


def _zip_members(path: Path, file: Path) -> Iterator[Member]:
    if _directory_bytes(file) > MOST_DIRECTORY_BYTES:
        raise _too_many(path)
    with ZipFile(file) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                yield Member(entry.filename, entry.file_size, entry.compress_size)


def _directory_bytes(file: Path) -> int:
    """Return the length of the directory of a zip archive, from the end of the file."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - ZIP_END_BYTES))
        end = stream.read()
    at = end.rfind(ZIP_END)
    recorded = end[at + 12 : at + 16]
    if at < 0 or len(recorded) < 4:
        return 0  # opening it reports the error
    length = int.from_bytes(recorded, "little")
    if length == 0xFFFFFFFF and (at := end.rfind(ZIP64_END)) >= 0:
        length = int.from_bytes(end[at + 40 : at + 48], "little")
    return length


def _tar_members(file: Path) -> Iterator[Member]:
    size = file.stat().st_size
    with _unpacked(file) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
        for entry in tar:
            if entry.isreg() and not entry.issparse():
                stored = size if isinstance(plain, _Bounded) else entry.size
                yield Member(entry.name, entry.size, stored, entry.offset_data)


def _too_many(path: Path) -> InputError:
    return InputError(
        path,
        f"has more than {MOST_MEMBERS:,} files in it",
        hint="unpack it, and give the logs or their folder",
    )


def _unpacked(file: Path) -> BinaryIO:
    """Open a tar archive without its compression."""
    with file.open("rb") as stream:
        start = stream.read(BLOCK_BYTES)
    for magic, unpack in PACKERS.items():
        if start.startswith(magic):
            return cast(BinaryIO, _Bounded(unpack(file)))
    return file.open("rb")


class _Bounded(io.RawIOBase):
    """Unpacked data that limits each read, as a forged header may request a huge one."""

    def __init__(self, packed: io.BufferedIOBase) -> None:
        self._packed = packed

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._packed.read(size)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._packed.seek(offset, whence)

    def tell(self) -> int:
        return self._packed.tell()

    def close(self) -> None:
        self._packed.close()
        super().close()


class _TarMember:
    """A member of a tar archive, which is closed with it."""

    def __init__(self, file: Path, member: Member) -> None:
        self._plain = _unpacked(file)
        self._plain.seek(member.start)
        self._left = member.size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._plain.read(min(wanted, MOST_HEADER_BYTES))
        if wanted and not data:
            raise EOFError("the archive ends in a member")
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._plain.close()
