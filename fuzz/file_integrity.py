"""Check that a file is complete, by its kind."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree


def problem_of(path: Path) -> str | None:
    """Return the problem of a file; None if it is complete or of an unknown kind."""
    if not path.is_file() or path.is_symlink():
        return None
    data = path.read_bytes()
    try:
        match path.suffix.lower():
            case ".parquet":
                _parquet(path)
            case ".json" if data[64:65] == b"\n" and data[:64].isalnum():  # an entry of a cache
                json.loads(data[65:])
            case ".json":
                json.loads(data, parse_constant=_refuse)
            case ".svg" | ".xml":
                ElementTree.fromstring(data)
            case ".png":
                if not (data.startswith(b"\x89PNG\r\n\x1a\n") and b"IEND" in data[-12:]):
                    return "no whole PNG"
            case ".html":
                if not data.rstrip().endswith(b"</html>"):
                    return "no end of the page"
            case ".csv":
                rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
                if len({len(row) for row in rows}) > 1:
                    return "rows of different lengths"
            case ".md" | ".txt":
                if not data.decode().endswith("\n"):
                    return "no end of the last line"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _parquet(path: Path) -> None:
    import polars as pl

    pl.read_parquet(path, glob=False)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
