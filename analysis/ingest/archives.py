"""Archives, zip and tar: what they hold, and one of their members as a stream."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import BadZipFile, ZipFile

from gpuplan.analysis.errors import InputError

ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
GZIP_MAGIC = b"\x1f\x8b"
BZIP2_MAGIC = b"BZh"
XZ_MAGIC = b"\xfd7zXZ\x00"
PACKERS: dict[bytes, Callable[[Path], io.BufferedIOBase]] = {
    GZIP_MAGIC: gzip.GzipFile,
    BZIP2_MAGIC: bz2.BZ2File,
    XZ_MAGIC: lzma.LZMAFile,
}
TAR_MAGIC = b"ustar"
TAR_MAGIC_AT = 257
BLOCK_BYTES = 512
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its name there, and its size in bytes."""

    name: str
    size: int


def is_tar(data: bytes) -> bool:
    """Whether the first bytes, decompressed, are those of a tar archive."""
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
                return None  # reading it tells what is wrong
    return "tar" if is_tar(start) else None


def members_of(path: Path, file: Path, kind: str) -> list[Member]:
    """Return the files in an archive in the order of their names.

    Raises:
        InputError: the archive, which the user calls ``path``, is damaged or has no file in it.
    """
    try:
        if kind == "zip":
            with ZipFile(file) as archive:
                found = [Member(m.filename, m.file_size) for m in archive.infolist()
                         if not m.is_dir()]  # fmt: skip
        else:
            with tarfile.open(file) as tar:
                found = [Member(entry.name, entry.size) for entry in tar if entry.isfile()]
    except (*DAMAGE, ValueError, NotImplementedError) as error:
        problem = f"is a damaged {kind} file ({error})"
        raise InputError(path, problem, hint="fetch it again") from error
    if not found:
        raise InputError(path, f"is a {kind} file with no file in it", expected="a log in it")
    return sorted(found, key=lambda member: member.name)


def open_member(file: Path, kind: str, name: str) -> BinaryIO:
    """Open a member, unpacked."""
    if kind == "zip":
        with ZipFile(file) as archive:  # the member keeps its file open
            return cast(BinaryIO, archive.open(name))
    return cast(BinaryIO, _TarMember(file, name))


class _TarMember:
    """A member of a tar archive, which is closed with it."""

    def __init__(self, file: Path, name: str) -> None:
        self._archive = tarfile.open(file)
        stream = self._archive.extractfile(name)
        assert stream is not None  # only files are listed
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)

    def close(self) -> None:
        self._stream.close()
        self._archive.close()
