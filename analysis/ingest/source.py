"""A source file as a stream of bytes: decompressed, hashed while it is read, told by its head."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.files import existing_file

HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PARQUET_MAGIC = b"PAR1"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SourceStream:
    """The bytes of one file in order, without compression and byte order mark.

    Attributes:
        path: the file, as the user gave it.
    """

    def __init__(self, path: Path, on_bytes: Callable[[int], None] | None = None) -> None:
        """Open a file; ``on_bytes`` is told how many bytes have been read from the disk."""
        self.path = existing_file(path)
        self._disk = _HashedFile(path, on_bytes)
        magic = self._disk.peek()
        self._text: BinaryIO = cast(BinaryIO, self._disk)
        self._packing = ""
        if magic.startswith(GZIP_MAGIC):
            self._packing = "gzip"
            self._text = cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, self._disk)))
        elif magic.startswith(ZSTD_MAGIC):
            import pyarrow as pa

            self._packing = "zstd"
            self._text = pa.CompressedInputStream(pa.PythonFile(self._disk, "r"), "zstd")
        self._ahead = b""
        self._ahead = self.read(HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)

    @property
    def head(self) -> bytes:
        """The first bytes; only right before `read` has been called."""
        return self._ahead

    def read(self, size: int) -> bytes:
        """Return the next bytes, about ``size`` of them; none at the end.

        Raises:
            InputError: the file is damaged or cannot be read.
        """
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        parts = []
        try:
            while size > 0 and (part := self._text.read(size)):
                parts.append(part)
                size -= len(part)
        except (OSError, EOFError, zlib.error) as error:
            what = f"is a damaged {self._packing} file" if self._packing else "cannot be read"
            raise InputError(self.path, f"{what} ({error})", hint="fetch it again") from error
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        self._disk.close()

    def sha256(self) -> str:
        """Return the hash of the whole file on disk, reading what is left of it."""
        return self._disk.sha256()


class _HashedFile(io.RawIOBase):
    """A file that is read once from start to end and hashed on the way."""

    def __init__(self, path: Path, on_bytes: Callable[[int], None] | None) -> None:
        self._stream = path.open("rb", buffering=0)
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
            taken, self._peeked = self._peeked[:end], self._peeked[end:]
            return taken
        data = self._stream.read(size) or b""
        self._digest.update(data)
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()

    def sha256(self) -> str:
        while self.read(1 << 20):
            pass
        return self._digest.hexdigest()


@dataclass(frozen=True)
class Head:
    """What the first bytes of a file show; formats are recognized by it.

    Attributes:
        path: the file.
        data: its first bytes, decompressed.
    """

    path: Path
    data: bytes

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file."""
        return self.data.startswith(PARQUET_MAGIC)

    @property
    def is_json(self) -> bool:
        """Whether the text starts like a JSON array or object."""
        return self.data.lstrip()[:1] in (b"[", b"{")

    @cached_property
    def line(self) -> str | None:
        """The first line that is not blank; None where it is no UTF-8 text."""
        line = self.data.lstrip().partition(b"\n")[0].rstrip()
        if b"\0" in line:
            return None
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            # The head may cut the last character of a very long line.
            return line[: error.start].decode() if error.start > len(line) - 4 > 0 else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names in the first line, read as the header of a comma-separated file."""
        if self.is_json or self.is_parquet or not self.line:
            return ()
        return tuple(header_names(self.line.encode(), ","))

    def mentions(self, *keys: str) -> bool:
        """Whether it is JSON with all of these keys in its first bytes."""
        return self.is_json and all(f'"{key}"'.encode() in self.data for key in keys)

    def shown(self) -> str:
        """Return the start of the file as an error message may quote it."""
        if not self.data:
            return "nothing"
        if self.line is None:
            return f"the bytes {self.data[:12].hex(' ')} (not UTF-8 text)"
        return repr(self.line if len(self.line) <= 120 else self.line[:117] + "...")


def header_names(line: bytes, separator: str) -> list[str]:
    """Return the column names of a header line; a repeated name gets a number (``loss.2``)."""
    names: list[str] = []
    for name in (cell.strip() for cell in split_line(line, separator)):
        unique, copy = name, 2
        while unique in names:
            unique, copy = f"{name}.{copy}", copy + 1
        names.append(unique)
    return names


def split_line(line: bytes, separator: str) -> list[str]:
    """Return the cells of one line, for a look at it; no error whatever it is."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return text.split(separator)
