"""Read the shape of a cluster as an option gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.simkit.cluster_shape import ClusterShape

if TYPE_CHECKING:
    from gpuplan.simkit.cluster_shape import ClusterShape


def read_shape(text: str, option: str) -> ClusterShape:
    """Return the shape of a cluster; ``/`` may stand between its GPU types.

    Raises:
        UsageError: the text is not a shape; the message names the option and the forms.
    """
    try:
        shape = ClusterShape.parse(text.replace("/", ","))
    except ValueError as error:
        raise UsageError(f"{option} {shortened(text)!r}: {error}") from error
    for place, name in enumerate(shape.gpu_types):
        for other in shape.gpu_types[:place]:
            if gpu_name(name) == gpu_name(other):
                raise UsageError(
                    f"{option} {shortened(text)!r}: {other} and {name} are one GPU type; add their "
                    "nodes up"
                )
    return shape


def shape_text(text: str) -> str:
    """Return the shape of a cluster as JSON has it. Raises `UsageError`."""
    return str(read_shape(text, "--cluster"))
