"""The formats of series of metrics, each recognized by the first bytes of a file."""

from __future__ import annotations

from collections.abc import Set

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.metrics.nvidia_smi import is_nvidia_smi, read_nvidia_smi
from gpuplan.analysis.metrics.prometheus import is_prometheus, read_prometheus
from gpuplan.analysis.metrics.samples import GpuSamples
from gpuplan.analysis.metrics.wandb_events import is_wandb_events, read_wandb_events
from gpuplan.analysis.reading.source import SourceStream


def read_samples(
    stream: SourceStream, samples: GpuSamples, nodes: Set[str], time_zone: str | None
) -> None:
    """Add the samples of a file of any format.

    Args:
        stream: the file.
        samples: takes them.
        nodes: of the log.
        time_zone: of local times; None for UTC.

    Raises:
        InputError: the file is of no known format, or cannot be read.
    """
    head = stream.head
    if is_prometheus(head):
        return read_prometheus(stream, samples, nodes)
    if is_nvidia_smi(head):
        return read_nvidia_smi(stream, samples, nodes, time_zone)
    if is_wandb_events(head):
        return read_wandb_events(stream, samples)
    raise InputError(
        stream.path,
        "is not a known format of GPU metrics" if head.strip() else "is empty",
        expected="an answer of Prometheus to query_range (JSON), nvidia-smi --query-gpu (CSV), or "
        "system metrics of Weights & Biases",
    )
