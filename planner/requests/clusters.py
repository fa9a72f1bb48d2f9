"""The option ``--cluster`` and its short form ``--gpus``: the GPUs that policies run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.option import Opt
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.simkit.limits import MOST_GPUS

if TYPE_CHECKING:
    from gpuplan.simkit.cluster_shape import ClusterShape

METAVAR = "SHAPE"


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
class ClusterRequest:
    """The GPUs that a policy may hold."""

    cluster: Annotated[
        str | None,
        Opt(
            "GPUs to run on: 64, 8x4 (8 nodes of 4 GPUs), x4 (as many nodes of 4 as needed), "
            "A100=8x4 to name the GPU type, or A100=8x4,T4=12x4 for several. For a policy that "
            "rents, the most workers. Default: today's peak if jobs wait.",
            key=None,
            metavar=METAVAR,
            common=True,
        ),
    ] = None
    gpus: Annotated[
        str | None,
        Opt(
            "Number of GPUs, without nodes; short for --cluster.",
            key=None,
            metavar="N",
            common=True,
        ),
    ] = None

    def sizes(self) -> tuple[ClusterSize, ...]:
        """Return what is requested, each once; empty for no limit.

        Raises:
            UsageError: both options, a shape that is none, or a size given twice.
        """
        return _read_sizes(self.cluster, self.gpus)

    def size(self) -> ClusterSize | None:
        """Return the one size; None for no limit.

        Raises:
            UsageError: both options, several sizes, or a shape that is none.
        """
        if self.cluster is not None and len(_sizes(self.cluster)) > 1:
            raise UsageError(
                f"--cluster {shortened(self.cluster)}: takes one cluster here\n"
                "  next: gpuplan compare takes several"
            )
        sizes = self.sizes()
        if len(sizes) > 1:
            raise UsageError(
                f"--gpus must be one whole number here, got {self.gpus!r}\n"
                "  next: gpuplan compare takes several"
            )
        return sizes[0] if sizes else None


@dataclass(frozen=True, slots=True)
class ClusterListRequest(ClusterRequest):
    """The GPUs that policies may hold: one cluster, or several to compare."""

    cluster: Annotated[
        str | None,
        Opt(
            "GPUs to run on: 64, 8x4 (8 nodes of 4 GPUs), x4 (as many nodes of 4 as needed), or "
            "A100=8x4 to name the GPU type. Several, as in 8x4,16x4, give a row each. For a policy "
            "that rents, the most workers. Default: today's peak if jobs wait.",
            key=None,
            metavar="SHAPE[,SHAPE...]",
            common=True,
        ),
    ] = None
    gpus: Annotated[
        str | None,
        Opt(
            "Numbers of GPUs, without nodes, such as 256 or 256,512; short for --cluster.",
            key=None,
            metavar="N[,N...]",
            common=True,
        ),
    ] = None


def _read_sizes(cluster: str | None, gpus: str | None) -> tuple[ClusterSize, ...]:
    """Return the clusters of ``--cluster`` or ``--gpus``. Raises `UsageError`."""
    if cluster is not None and gpus is not None:
        raise UsageError(
            f"--gpus {gpus} and --cluster {shortened(cluster)}: both are the size of "
            "the cluster\n  next: give one of the two"
        )
    if gpus is not None:
        sizes = [
            ClusterSize(f"--gpus {number}", read_shape(number, "--gpus"))
            for number in map(_whole_number, gpus.split(","))
        ]
    else:
        sizes = [read_size(text) for text in _sizes(cluster)] if cluster is not None else []
    shapes = [str(size.shape) for size in sizes]
    twice = next((text for text in shapes if shapes.count(text) > 1), None)
    if twice is not None:
        raise UsageError(f"{'--cluster' if gpus is None else '--gpus'}: {twice} is given twice")
    return tuple(sizes)


def _whole_number(text: str) -> str:
    """Return digits without leading zeros. Raises `UsageError` for what is no number of GPUs."""
    number = text.strip()
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:12]) <= MOST_GPUS):
        raise UsageError(
            f"--gpus must be a whole number from 1 to {MOST_GPUS:,}, got {shortened(number)!r}"
        )
    return str(int(number))


def _sizes(text: str) -> list[str]:
    """Return the clusters of a list; pools of different GPU types side by side are one cluster.

    One type throughout gives several clusters. Raises `UsageError` for a type that comes twice
    beside others.
    """
    parts = text.split(",")
    types = [part.partition("=")[0].strip() if "=" in part else "" for part in parts]
    kinds = len(set(types))
    if len(parts) == 1 or kinds == 1 or not all(types) or "/" in text:
        return parts
    twice = next((name for name in types if types.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"--cluster {shortened(text)}: {twice} is given twice\n  next: add its nodes up; or, "
            f"for several clusters, / between the types of each: {'/'.join(dict.fromkeys(parts))}"
        )
    return [text]


def read_size(text: str) -> ClusterSize:
    """Return what ``--cluster`` says. Raises `UsageError`."""
    return ClusterSize(f"--cluster {shortened(text)}", read_shape(text, "--cluster"))
