"""The option ``--cluster`` and its short form ``--gpus``: the GPUs that policies run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.app.option_text import COMMON
from gpuplan.planner.requests.clusters import METAVAR, ClusterRequest, ClusterSize

if TYPE_CHECKING:
    pass


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
        str | None,
        COMMON,
        typer.Option(
            help="Number of GPUs, without nodes; short for --cluster.",
            metavar="N",
            show_default=False,
        ),
    ] = None

    def size(self) -> ClusterSize | None:
        """Return what is given; None for no limit.

        Raises:
            UsageError: both options, several sizes, or a shape that is none.
        """
        return ClusterRequest(self.cluster, self.gpus).size()


@dataclass(frozen=True, slots=True)
class ClusterListChoice:
    """The GPUs that policies may hold: one cluster, or several to compare."""

    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPUs to run on: 64, 8x4 (8 nodes of 4 GPUs), x4 (as many nodes of 4 as "
            "needed), or A100=8x4 to name the GPU type. Several, as in 8x4,16x4, give a row "
            "each. For a policy that rents, the most workers. Default: no limit.",
            metavar="SHAPE[,SHAPE...]",
            show_default=False,
        ),
    ] = None
    gpus: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Numbers of GPUs, without nodes, such as 256 or 256,512; short for --cluster.",
            metavar="N[,N...]",
            show_default=False,
        ),
    ] = None

    def sizes(self) -> tuple[ClusterSize, ...]:
        """Return what is given, each once; empty for no limit.

        Raises:
            UsageError: both options, a shape that is none, or a size given twice.
        """
        return ClusterRequest(self.cluster, self.gpus).sizes()

    def parameters(self) -> dict[str, Any]:
        """Return what is given as the JSON output names it: the shape, and its GPUs.

        Several shapes are one text, and their GPUs a list.
        """
        sizes = self.sizes()
        if len(sizes) <= 1:
            shape = sizes[0].shape if sizes else None
            return {"cluster": shape and str(shape), "gpus": shape and shape.gpus}
        return {
            "cluster": ",".join(str(size.shape).replace(",", "/") for size in sizes),
            "gpus": [size.shape.gpus for size in sizes],
        }
