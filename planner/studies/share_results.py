"""The parameters and results of ``gpuplan share``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from gpuplan.planner.sharing.sharing_results import CoscalingResults, PlacementResults


@dataclass(frozen=True, slots=True)
class ShareParameters:
    """What was asked of ``gpuplan share``; some fields are of instances alone, some of services.

    Attributes:
        gamma: most that the limits on a GPU add up to, in GPUs.
        omega: most that the requests on a GPU add up to, in GPUs.
        alpha, beta: weights of free SMs and free memory in the score.
        memory_gb: memory of a GPU.
        split: whether an LLM may go to several GPUs of a node.
        affinity: whether instances of a function share the gangs that one of them shares.
        reference: whether ties are broken as in the authors' simulation.
        gammas: values of gamma, of instances.
        usd_per_gpu_h: price, of instances.
        map: our column -> the header that stands for it.
        loads: requests by service.
        multiplier: factor on requests per second.
        capacity_rps: requests per second that one instance is registered to serve;
            null as profiled.
        cold_starts_s: times until a new instance is ready.
        horizon_s: length of the run.
        seed: of requests that are sampled.
    """

    policies: list[str]
    cluster: str
    gamma: float
    omega: float
    alpha: float
    beta: float
    memory_gb: float
    split: bool
    affinity: bool
    reference: bool
    gammas: list[float] | UnsetType = UNSET
    usd_per_gpu_h: float | UnsetType | None = UNSET
    map: dict[str, str] | UnsetType = UNSET
    loads: dict[str, str] | UnsetType = UNSET
    multiplier: float | UnsetType = UNSET
    capacity_rps: float | UnsetType | None = UNSET
    cold_starts_s: list[float] | UnsetType = UNSET
    horizon_s: float | UnsetType = UNSET
    seed: int | UnsetType = UNSET


ShareResults = PlacementResults | CoscalingResults
