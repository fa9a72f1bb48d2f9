"""Pod sets of a Workload of Kueue: what their pods request, and the GPUs that they were given."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gpuplan.analysis.job_table.schema import MAX_GPUS
from gpuplan.analysis.kubernetes.gpus import is_gpu
from gpuplan.analysis.kubernetes.quantities import device_count, pod_count
from gpuplan.analysis.kubernetes.workload_objects import WorkloadAdmission
from gpuplan.analysis.quota.amounts import gpus_of, units
from gpuplan.analysis.quota.workload_texts import PodSetText, requests_of

AT_MOST = f" from 0 to {MAX_GPUS:,.0f}"


class ContradictoryWorkload(ValueError):
    """A workload that ingest rejects too: its times or amounts contradict each other."""


@dataclass(frozen=True, slots=True)
class PodSetShape:
    """A pod set of a workload.

    Attributes:
        name: of it.
        count: pods wanted. ``least``: fewest that it takes; None: all.
        requests: what a pod requests of each resource, in the units of `units`.
        selector: labels that its nodes must have. ``terms``: requirements of which one list holds.
        tolerations: taints that it tolerates.
    """

    name: str
    count: int
    least: int | None
    requests: tuple[tuple[str, int], ...]
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()


def assigned_gpus(
    admission: WorkloadAdmission | None, groups: tuple[PodSetShape, ...]
) -> tuple[Fraction, str]:
    """Return the GPUs of a workload, as given or else as requested, and the flavor of most."""
    by_flavor: dict[str, Fraction] = {}
    for assignment in (admission.assignments if admission else None) or ():
        for resource, amount in (assignment.usage or {}).items():
            if is_gpu(resource):
                flavor = (assignment.flavors or {}).get(resource, "")
                try:
                    gpus = device_count(amount) * gpus_of(resource)
                except ValueError:
                    raise ContradictoryWorkload(
                        f"holds {amount} of {resource}, expected a whole number{AT_MOST}"
                    ) from None
                by_flavor[flavor] = by_flavor.get(flavor, Fraction(0)) + gpus
    if not by_flavor:
        wanted = sum(
            (amount * gpus_of(name) * pods.count for pods in groups for name, amount in
             pods.requests if is_gpu(name)),
            Fraction(0),
        )  # fmt: skip
        if wanted > MAX_GPUS:
            raise ContradictoryWorkload(f"wants {float(wanted):g} GPUs, expected a number{AT_MOST}")
        return wanted, ""
    held = sum(by_flavor.values(), Fraction(0))
    if held > MAX_GPUS:
        raise ContradictoryWorkload(f"holds {float(held):g} GPUs, expected a number{AT_MOST}")
    flavor = max(by_flavor, key=lambda name: (by_flavor[name], name))
    return held, flavor


def _requested(name: str, amount: Fraction) -> int:
    """Return an amount of a resource in whole units. Raises `ValueError`."""
    try:
        whole_units = units(amount, name, rounds_up=True)
    except ValueError as error:
        raise ValueError(f"requests too much {name}, expected {error}") from None
    if whole_units < 0:
        raise ValueError(f"requests {float(amount):g} of {name}, expected at least 0")
    return whole_units


def pod_group(pods: PodSetText) -> PodSetShape:
    """Return a pod set. Raises `ValueError` for an amount that is none."""
    spec = pods.template.spec
    required = spec.affinity.node.required if spec.affinity and spec.affinity.node else None
    requests = {name: _requested(name, amount) for name, amount in requests_of(spec).items()}
    return PodSetShape(
        pods.name,
        pod_count(pods.count),
        pods.least,
        tuple(sorted((name, amount) for name, amount in requests.items() if amount)),
        tuple(sorted((spec.node_selector or {}).items())),
        tuple(
            tuple(
                (rule.key, rule.operator, tuple(rule.values or ()))
                for rule in term.expressions or ()
            )
            for term in (required.terms if required else None) or ()
        ),
        tuple((t.key, t.operator, t.value, t.effect) for t in spec.tolerations or ()),
    )
