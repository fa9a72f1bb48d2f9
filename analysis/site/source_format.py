"""Which kind of log a file is: that settings of another kind of site are told from a bad log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.site.log import FORMATS, trace_provenance
from gpuplan.analysis.storage.files import STANDARD_INPUT, existing_file


def source_format_of(path: Path) -> str:
    """Return the format of a trace, or of a log without Kubernetes; empty where it is neither.

    Raises `InputError` where it cannot be read.
    """
    if path == STANDARD_INPUT or path.is_dir():
        return ""
    existing_file(path)
    with closing(SourceStream(Source(path, path, path.stat().st_size))) as stream:
        head = Head(path, stream.head)
    if head.is_parquet:
        return trace_provenance(path).source_format
    formats = (each for each in FORMATS if each.recognizes(head) is not None)
    return next((each.name for each in formats), "")
