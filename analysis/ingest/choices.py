"""Whether the user's options apply to the formats of the logs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.log_formats.format import IngestOptions, KubernetesOptions, LogFormat
from gpuplan.analysis.reading.times import check_zone

KUBERNETES = {
    "gpu_resources": "--gpu-resource",
    "user_label": "--user-label",
    "node_types": "--node-types",
    "include_cpu": "--include-cpu",
    "gang": "--gang",
    "metrics": "--metric",
}
"""Field of `KubernetesOptions` -> the option that sets it."""


def check_choices(used: Sequence[LogFormat], choices: IngestOptions) -> None:
    """Refuse options that apply to none of the formats. Raises `UsageError`."""
    names = " and ".join(log_format.name for log_format in used)
    if choices.time_zone is not None:
        if not any(log_format.takes_zone for log_format in used):
            raise UsageError(f"--time-zone: the times of {names} need no zone; leave it out")
        check_zone(choices.time_zone)
    if choices.own_durations and not any(log_format.has_durations for log_format in used):
        raise UsageError(
            f"--duration source: the format {names} does not record durations beside starts and "
            "ends; leave it out"
        )
    if choices.scheduler and not all(log_format.has_scheduler for log_format in used):
        raise UsageError(
            f"--twin: the format {names} does not record the fields of a scheduler; leave it out"
        )
    unset, read = KubernetesOptions(), {name for of in used for name in of.kubernetes}
    for name, option in KUBERNETES.items():
        is_set = getattr(choices.kubernetes, name) != getattr(unset, name)
        if is_set and name not in read and any(of.open_all is not None for of in used):
            raise UsageError(f"{option} does not apply to {names} logs; leave it out")
    if choices.kubernetes != unset and not any(of.open_all is not None for of in used):
        raise UsageError(
            "--gpu-resource, --user-label, --node-types, --include-cpu, --gang and --metric are "
            f"for logs of Kubernetes, not {names}; leave them out"
        )
    if choices.throughputs is not None and not any(
        log_format.takes_throughputs for log_format in used
    ):
        raise UsageError(f"--throughputs: the format {names} records no steps; leave it out")
    if choices.worker_type is not None and choices.throughputs is None:
        raise UsageError("--worker-type: chooses among the worker types of --throughputs FILE")
