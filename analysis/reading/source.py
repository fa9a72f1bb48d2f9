"""A source as a stream of bytes: decompressed, hashed while read, recognized by its head."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, BinaryIO, cast

from gpuplan.analysis.base.casts import no_pattern
from gpuplan.analysis.base.errors import InputError, OutputError
from gpuplan.analysis.reading.archives import (
    DAMAGE,
    GZIP_MAGIC,
    Member,
    open_member,
    unpacks_to_too_much,
)
from gpuplan.analysis.reading.limits import most_unpacked, shown_size, usable_temporary_bytes
from gpuplan.analysis.storage.files import (
    MOST_SMALL_BYTES,
    PARQUET_MAGIC,
    not_a_device,
    readable,
    too_large,
)
from gpuplan.analysis.storage.temporary import Held, tempfile_folder, temporary_file

HEAD_BYTES = 1 << 16
COPY_BYTES = 1 << 20
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "TABs", "|": "vertical bars"}


@dataclass(frozen=True, slots=True)
class Source:
    """One log to read.

    Attributes:
        path: what messages, provenance and rejects call it: the path as the user gave it, one below
            a folder given, or ``archive.zip!member``.
        file: the file that holds it.
        size: bytes that reading it takes from the disk or out of its archive.
        member: its name in the archive ``file``; None for the file itself.
        is_named: whether the user named this file; a file from a folder or an archive of several
            holds need not be a log.
        archive: ``zip`` or ``tar`` if it is a member.
    """

    path: Path
    file: Path
    size: int
    member: Member | None = None
    is_named: bool = True
    archive: str = ""

    def open(self) -> BinaryIO:
        """Open its bytes as they are stored; those of a member are unpacked from its archive."""
        if self.member is None:
            return cast(BinaryIO, self.file.open("rb", buffering=0))
        return open_member(self.file, self.archive, self.member)

    @property
    def stored(self) -> int:
        """Bytes that it takes on the disk, packed as it is."""
        return self.size if self.member is None else self.member.stored


class SourceStream:
    """The bytes of one source in order, without compression and byte order mark.

    Attributes:
        path: what messages call it.
    """

    def __init__(self, source: Source, on_bytes: Callable[[int], None] | None = None) -> None:
        """Open a source; ``on_bytes`` is called with the number of its bytes read so far.

        Raises:
            InputError: it is damaged or cannot be read.
        """
        self.path = source.path
        self._source = source
        self._packing = source.archive
        self._unpacked: Held | None = None
        self._left = most_unpacked(source.stored)
        with self._locating_errors():
            self._disk = _HashedFile(source.open(), on_bytes)
            magic = self._disk.peek()
        self._text: BinaryIO = cast(BinaryIO, self._disk)
        if magic.startswith(GZIP_MAGIC):
            self._packing = "gzip"
            self._text = cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, self._disk)))
        elif magic.startswith(ZSTD_MAGIC):
            import pyarrow as pa

            self._packing = "zstd"
            self._text = pa.CompressedInputStream(pa.PythonFile(self._disk, "r"), "zstd")
        self._ahead = b""
        try:
            self._ahead = self.read(HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)
        except BaseException:
            self.close()
            raise

    @property
    def head(self) -> bytes:
        """The first bytes; only right before `read` has been called."""
        return self._ahead

    @property
    def is_packed(self) -> bool:
        """Return whether its bytes are unpacked while they are read."""
        return bool(self._packing)

    @property
    def file(self) -> Path:
        """The file with the plain bytes, once `to_file` has been called where they are packed."""
        return self._source.file if self._unpacked is None else self._unpacked.path

    def read(self, size: int) -> bytes:
        """Return the next bytes, about ``size`` of them; none at the end.

        Raises:
            InputError: the source is damaged or cannot be read.
        """
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        parts = []
        with self._locating_errors():
            while size > 0 and (part := self._text.read(size)):
                parts.append(part)
                size -= len(part)
        data = b"".join(parts)
        self._left -= len(data)
        if self._packing and self._left < 0:
            raise unpacks_to_too_much(self.path, most_unpacked(self._source.stored))
        return data

    def to_file(self) -> Path:
        """Return a file with the plain bytes, for a reader that moves about in them.

        Bytes that are packed are written to a temporary file, which `close` removes.
        """
        if self._packing and self._unpacked is None:
            try:
                self._unpacked = temporary_file(Path(tempfile_folder()))
            except OSError as error:
                raise _disk_full(self.path, str(error.strerror or error)) from error
            with self._unpacked.path.open("wb") as plain:
                copy(self.read, plain, self.path, self._left + COPY_BYTES)
        return self.file

    def close(self) -> None:
        """Close the source."""
        self._disk.close()
        if self._unpacked is not None:
            self._unpacked.release()

    def sha256(self) -> str:
        """Return the hash of all its bytes as stored, reading the rest of them."""
        with self._locating_errors():
            return self._disk.sha256()

    @contextmanager
    def _locating_errors(self) -> Iterator[None]:
        """Turn what reading may raise into an error that names the source."""
        try:
            yield
        except DAMAGE as error:
            what = f"is a damaged {self._packing} file" if self._packing else "cannot be read"
            raise InputError(self.path, f"{what} ({error})", hint="fetch it again") from error
        except (RuntimeError, NotImplementedError) as error:  # a password, or an odd method
            raise InputError(
                self.path, f"cannot be unpacked ({error})", hint="unpack the archive yourself"
            ) from error


def read_unpacked(path: Path, most: int = MOST_SMALL_BYTES) -> bytes:
    """Return all bytes of a file that cannot be large, unpacked from gzip or zstd.

    Raises:
        InputError: no such file, it cannot be read, or it is larger.
    """
    with opened_file(path) as stream:
        return read_all(stream, most)


def opened_file(path: Path) -> closing[SourceStream]:
    """Return the stream of a file, to be closed. Raises `InputError` where it cannot be read."""
    return closing(SourceStream(Source(path, path, not_a_device(path).stat().st_size)))


def read_all(stream: SourceStream, most: int = MOST_SMALL_BYTES) -> bytes:
    """Return the rest of a stream that cannot be large. Raises `InputError`."""
    parts, size = [], 0
    while part := stream.read(COPY_BYTES):
        size += len(part)
        if size > most:
            raise too_large(stream.path, most)
        parts.append(part)
    return b"".join(parts)


def copy(read: Callable[[int], bytes], plain: IO[bytes], path: Path, most: int) -> None:
    """Write all bytes that ``read`` gives to a temporary file.

    Raises:
        InputError: they cannot be read, or are more than ``most``.
        OutputError: the disk is full.
    """
    limit, size = usable_temporary_bytes(), 0
    while True:
        with readable(path):
            data = read(COPY_BYTES)
        size += len(data)
        if size > limit:
            raise _disk_full(path, f"it takes over half of the free space, {shown_size(limit)}")
        if size > most:
            raise InputError(
                path, f"is longer than {shown_size(most)}", hint="give a longer log as a file"
            )
        try:
            plain.write(data)
            if not data:
                plain.flush()
                return
        except OSError as error:
            raise _disk_full(path, str(error.strerror or error)) from error


def _disk_full(path: Path, problem: str) -> OutputError:
    try:
        where = tempfile_folder()
    except OSError:
        where = "a temporary file"
    return OutputError(
        f"{path}: cannot be kept in {where} while it is read: {problem}\n"
        "  next: set TMPDIR to a folder with room"
    )


class _HashedFile(io.RawIOBase):
    """A file that is read once from start to end and hashed on the way."""

    def __init__(self, stream: BinaryIO, on_bytes: Callable[[int], None] | None) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._on_bytes = on_bytes
        self._peeked = b""

    def peek(self) -> bytes:
        self._peeked = self.read(16)
        return self._peeked

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._peeked:
            end = len(self._peeked) if size < 0 else size
            start, self._peeked = self._peeked[:end], self._peeked[end:]
            return start
        data = self._stream.read(size) or b""
        self._digest.update(data)
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()

    def sha256(self) -> str:
        while self.read(COPY_BYTES):
            pass
        return self._digest.hexdigest()


@dataclass(frozen=True)
class Head:
    """The first bytes of a file, from which formats are recognized.

    Attributes:
        path: what messages call it.
        data: its first bytes, decompressed.
        file: where its plain bytes are, for a format that is read from a file.
    """

    path: Path
    data: bytes
    file: Path | None = None

    @property
    def is_parquet(self) -> bool:
        """Return whether it is a Parquet file."""
        return self.data.startswith(PARQUET_MAGIC)

    @property
    def is_json(self) -> bool:
        """Return whether the text starts like a JSON array or object."""
        return self.data.lstrip()[:1] in (b"[", b"{")

    @cached_property
    def line(self) -> str | None:
        """The first line that is not blank; None if it is not UTF-8 text."""
        line = self.data.lstrip().partition(b"\n")[0].rstrip()
        if b"\0" in line:
            return None
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            # The head may truncate the last character of a very long line.
            return line[: error.start].decode() if error.start > len(line) - 4 > 0 else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names in the first line, read as the header of a comma-separated file."""
        if self.is_json or self.is_parquet or not self.line:
            return ()
        return tuple(header_names(self.line.encode(), ","))

    @cached_property
    def table_columns(self) -> tuple[str, ...]:
        """Names in the first line, read as the header of a table of any separator."""
        if self.is_json or self.is_parquet or not self.line:
            return ()
        return tuple(header_names(self.line.encode(), likely_separator(self.line)))

    def mentions(self, *keys: str) -> bool:
        """Return whether it is JSON with all of these keys in its first bytes."""
        return self.is_json and all(f'"{key}"'.encode() in self.data for key in keys)

    def shown(self) -> str:
        """Return the start of the file as an error message may quote it."""
        if not self.data:
            return "nothing"
        if self.line is None:
            return f"the bytes {self.data[:12].hex(' ')} (not UTF-8 text)"
        return repr(self.line if len(self.line) <= 120 else self.line[:117] + "...")


def header_names(line: bytes, separator: str, *, any_case: bool = False) -> list[str]:
    """Return the column names of a header line; a repeated name gets a number (``loss.2``).

    A name that polars would take for a pattern, ``*`` or ``^...$``, gets a blank before it.
    """
    if any_case:
        line = line.decode("utf-8", "replace").lower().encode()
    names: dict[str, None] = {}
    copies: dict[str, int] = {}
    for name in (no_pattern(cell.strip()) for cell in split_line(line, separator)):
        unique = name
        while unique in names:
            copies[name] = copies.get(name, 1) + 1
            unique = f"{name}.{copies[name]}"
        names[unique] = None
    return list(names)


def likely_separator(line: str) -> str:
    """Return the separator with the most cells in a header: a comma, ``;``, a TAB or ``|``."""
    return max(SEPARATORS, key=lambda separator: len(split_line(line.encode(), separator)))


def split_line(line: bytes, separator: str) -> list[str]:
    """Return the cells of one line, for a look at it; no error whatever it is."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return text.split(separator)
