"""How the policies of shared GPUs differ: charges, score and quotas."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.sharing.fleet import BEST_FIT, BEST_FIT_SM, WHOLE_GPUS, PlacementRules

DILU, EXCLUSIVE, INFLESS_L, INFLESS_R, FAST_GS = (
    "dilu",
    "exclusive",
    "infless-l",
    "infless-r",
    "fast-gs",
)
PLACEMENT_POLICIES = (DILU, EXCLUSIVE, INFLESS_L, INFLESS_R, FAST_GS)
ROUNDING = 1e-9  # what a sum of shares may exceed its bound by


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """What may be set about placement.

    Attributes:
        gamma: most that the limits on a GPU may add up to, in GPUs.
        omega: most that the requests on a GPU may add up to, in GPUs.
        alpha, beta: weights of free SMs and free memory in the score.
        memory_gb: memory of a GPU.
        split: whether an LLM may go to several GPUs of a node.
        affinity: whether instances of a function share the gangs that one of them shares.
        reference: break ties as the authors' simulation does, with what rounding leaves.
    """

    gamma: float = 1.5
    omega: float = 1.0
    alpha: float = 0.6
    beta: float = 0.4
    memory_gb: float = 40.0
    split: bool = True
    affinity: bool = True
    reference: bool = False

    def rules(self, policy: str) -> PlacementRules:
        """Return the rules of a policy of `PLACEMENT_POLICIES`. Raises `ValueError`."""
        if policy not in PLACEMENT_POLICIES:
            raise ValueError(f"policy must be one of {PLACEMENT_POLICIES}, got {policy!r}")
        dilu = policy == DILU
        method = WHOLE_GPUS if policy == EXCLUSIVE else BEST_FIT if dilu else BEST_FIT_SM
        return PlacementRules(
            method=method,
            omega=float(self.omega),
            gamma=float(self.gamma),
            sm_weight=float(self.alpha) if dilu else 1.0,
            memory_weight=float(self.beta) if dilu else 0.0,
            memory_gb=float(self.memory_gb),
            split=bool(self.split and dilu),
            affinity=bool(self.affinity and dilu and not self.reference),
            slack=0.0 if self.reference else ROUNDING,
            reference=bool(self.reference),
        )


def charges(policy: str, request: FloatArray, limit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what a policy charges for requests and limits, in GPUs."""
    if policy in (INFLESS_L, FAST_GS):
        return limit, limit
    if policy == INFLESS_R:
        return request, request
    return request, limit
