"""The option ``--cluster`` and its short form ``--gpus``: the GPUs that policies run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError, shortened
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.market_options import MOST_GPUS

if TYPE_CHECKING:
    from gpuplan.simkit.cluster_shape import ClusterShape

METAVAR = "SHAPE"
FORMS = (
    "nodes x GPUs per node such as 8x4 (8 nodes of 4 GPUs), a number of GPUs such as 64, or x4 for "
    "as many nodes of 4 as it takes; with the GPU type A100=8x4"
)


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster as one option gives it.

    Attributes:
        option: the option, as typed.
        shape: the cluster.
    """

    option: str
    shape: ClusterShape

    @property
    def gpu_type(self) -> str | None:
        """The only GPU type; None where none is named."""
        return self.shape.pool.gpu_type


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The GPUs that a policy may hold."""

    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPUs to run on: 64, 8x4 (8 nodes of 4 GPUs), x4 (as many nodes of 4 as "
            "needed), A100=8x4 to name the GPU type, or A100=8x4,T4=12x4 for several. For a "
            "policy that rents, the most workers. Default: no limit.",
            metavar=METAVAR,
            show_default=False,
        ),
    ] = None
    gpus: Annotated[
        int | None,
        COMMON,
        typer.Option(
            help="Number of GPUs, without nodes; short for --cluster.",
            min=1,
            max=MOST_GPUS,
            show_default=False,
        ),
    ] = None

    def size(self) -> ClusterSize | None:
        """Return what is given; None for no limit.

        Raises:
            UsageError: both options, or a shape that is none.
        """
        if self.cluster is not None and self.gpus is not None:
            raise UsageError(
                f"--gpus {self.gpus} and --cluster {shortened(self.cluster)}: both are the size of "
                "the cluster\n  next: give one of the two"
            )
        if self.gpus is not None:
            return ClusterSize(f"--gpus {self.gpus}", read_shape(str(self.gpus), "--gpus"))
        return None if self.cluster is None else read_size(self.cluster)

    def parameters(self) -> dict[str, Any]:
        """Return what is given as the JSON output names it: the shape, and its GPUs."""
        size = self.size()
        return {
            "cluster": None if size is None else str(size.shape),
            "gpus": None if size is None else size.shape.gpus,
        }


def read_size(text: str) -> ClusterSize:
    """Return what ``--cluster`` says. Raises `UsageError`."""
    return ClusterSize(f"--cluster {shortened(text)}", read_shape(text, "--cluster"))


def read_shape(text: str, option: str) -> ClusterShape:
    """Return the shape of a cluster; ``/`` may stand between its GPU types.

    Raises:
        UsageError: the text is no shape; the message names the option and the forms.
    """
    from gpuplan.simkit.cluster_shape import ClusterShape

    try:
        return ClusterShape.parse(text.replace("/", ","))
    except ValueError as error:
        raise UsageError(f"{option} {shortened(text)!r}: {error}") from error
