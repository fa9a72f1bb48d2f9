"""How a source may be packed: compressed, in an archive, in a folder, on standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from random import Random


def gzipped(data: bytes) -> bytes:
    """Return gzip bytes without a time in them."""
    return gzip.compress(data, mtime=0)


def zstandard(data: bytes) -> bytes:
    """Return zstd bytes."""
    import pyarrow as pa

    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w") -> bytes:
    """Return a tar archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


ODD_MEMBERS = ("../up.csv", "/abs.csv", "d/e/f.csv", "ü.csv", "\x1b[31m.csv", "x" * 200, "README")


def packed(name: str, data: bytes, rng: Random) -> tuple[str, bytes, str]:
    """Return a new name, the packed data, and a description."""
    members = {name: data}
    if rng.random() < 0.3:
        members[rng.choice(ODD_MEMBERS)] = rng.choice((b"", data, b"note\n"))
    match rng.randrange(20):
        case 0 | 1 | 2 | 3:
            return f"{name}.gz", gzipped(data), "gzip it"
        case 4 | 5:
            return f"{name}.gz", gzipped(data) + gzipped(b""), "two gzip members"
        case 6 | 7 | 8 | 9:
            return f"{name}.zst", zstandard(data), "zstd it"
        case 10 | 11 | 12 | 13:
            return "log.zip", zipped(members), "zip it"
        case 14 | 15:
            return "log.tar", tarred(members), "tar it"
        case 16 | 17 | 18:
            return "log.tar.gz", gzipped(tarred(members)), "tar and gzip it"
        case _:
            if rng.random() < 0.5:
                return f"{name}.bz2", bz2.compress(data), "bzip2 it"
            return f"{name}.xz", lzma.compress(data), "xz it"
