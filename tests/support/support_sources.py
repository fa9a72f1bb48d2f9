"""Forms of a log made by a test: folders, archives and standard input."""

import io
import sys
import tarfile
import zipfile
from types import SimpleNamespace

import polars as pl
from support_ingest import sia


def log_of(*names: str) -> str:
    """Return a Sia log with a job of each name."""
    return sia(*(f"{name},{i},bert,2,32" for i, name in enumerate(names)))


def files(folder, texts: dict[str, str | bytes]):
    """Write files below a folder; returns the folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def zipped(path, members: dict[str, str | bytes]):
    """Write a zip archive; returns its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def tarred(path, members: dict[str, str | bytes], mode: str):
    """Write a tar archive, packed as ``mode`` says; returns its path."""
    with tarfile.open(path, mode) as archive:
        for name, text in members.items():
            data = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def piped(monkeypatch, data: bytes, *, terminal: bool = False):
    """Let standard input hold these bytes."""
    stream = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: terminal)
    monkeypatch.setattr(sys, "stdin", stream)


def ids(result) -> list[str]:
    """Return the ids of the jobs of a trace."""
    return pl.read_parquet(result.output)["job_id"].to_list()


def sources_of(result) -> list[str]:
    """Return the names of the sources of a trace."""
    return [entry.name for entry in result.provenance.sources]
