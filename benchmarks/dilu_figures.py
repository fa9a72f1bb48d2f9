"""Figures 7, 8, 10 and 16 of Dilu's paper, its ablations and its violation rates: shown, not gated.

The paper gives ratios in its text and the rest in pictures. Models, loads and training curves are
not published, so two measured tables and the loads below stand in for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuplan.analysis.user_tables.rates import read_rates
from gpuplan.analysis.user_tables.sharing_profiles import read_profile
from gpuplan.planner.sharing.coscaling_study import CoscalingRow, SharingRequest, run_policy
from gpuplan.planner.sharing.loads import RequestProcess, even_arrivals
from gpuplan.planner.sharing.profile_search import search_service
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.sharing.policies import PlacementSettings
from gpuplan.simkit.sharing.services import Profile, Service, TrainingJob

DATA = Path(__file__).parents[2] / "shared" / "data" / "dilu"
MODELS = {"resnet152": (0.080, 35.0), "llama2": (0.084, 3.0)}  # SLO, requests per second
TOKENS = 32  # of a request to llama2
ONE_GPU_S = 300
PERIODIC_S = 300
PEAK = 3.0  # of the second periodic load, over the capacity that the profile gives
CAPACITY_RPS, MULTIPLIER = 48.0, 20.0
COLD_S = 10.0
IN_FIGURE = "in the figure only"
CVS = (1.0, 2.0, 4.0, 6.0)
BURST_RATE, BURST_FACTOR = 10.0, 6.0
TRAINING = Profile(  # speed in proportion to the share: no pauses, no interference
    np.ones(10, np.int64), np.arange(1, 11) / 10, 1 / (np.arange(1, 11) / 10)
)
TRAINING_REQUEST, TRAINING_LIMIT = 0.5, 0.8
SVR = {  # Table 3: percent of requests late under FaST-GS+, INFless+ and Dilu
    "bursty": (10.79, 6.28, 1.79),
    "periodic": (19.25, 11.09, 9.85),
    "sporadic": (7.57, 5.17, 2.33),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A result: the paper's figure, that of another program, ours, and whether ours must agree."""

    what: str
    paper: str
    reference: str
    here: str
    passed: bool | None = None


def service(model: str, name: str, arrival_s: FloatArray, **changes: object) -> Service:
    """Return a service of a measured model at the batch and share that the search finds."""
    slo_s = MODELS[model][0]
    table = read_profile(DATA / f"bs_sm_{model}.csv")
    found = search_service(table, slo_s)
    llm = model == "llama2"
    one = Service(
        name, Profile(*table.columns()), found.request, found.limit, found.batch, slo_s, arrival_s,
        memory_gb=26 if llm else 5, llm=llm, work=TOKENS if llm else 1, capacity_rps=1e9,
    )  # fmt: skip
    return replace(one, **changes)  # type: ignore[arg-type]


def on_one_gpu(services: Sequence[Service], trained: bool) -> dict[str, CoscalingRow]:
    """Return how services and a training job on one GPU fare by policy; exclusive takes more."""
    job = TrainingJob("job", TRAINING, TRAINING_REQUEST, TRAINING_LIMIT)
    settings = PlacementSettings(gamma=4.0, omega=2.0)
    jobs = [job] if trained else []
    request = SharingRequest(services, jobs, (), ONE_GPU_S, 1, 4, settings, frontier=False)
    return {
        policy: run_policy(policy, COLD_S, request)
        for policy in ("dilu", "mps-l", "mps-r", "exclusive")
    }


def ratio(runs: dict[str, CoscalingRow], other: str, key: str) -> float:
    """Return a latency under Dilu over that under another policy, the mean over services."""
    pairs = zip(runs["dilu"].functions, runs[other].functions, strict=True)
    return float(np.mean([getattr(one, key) / getattr(two, key) for one, two in pairs]))


def drawn(process: str, rate: float, shape: float = 1.0, seed: int = 0) -> FloatArray:
    """Return arrivals on one GPU."""
    return RequestProcess(process, rate, shape).arrivals(ONE_GPU_S, np.random.default_rng(seed))


def figure_7() -> Iterator[Row]:
    """Yield a service beside training: latency against whole GPUs and fixed quotas."""
    found = [
        on_one_gpu([service(model, model, drawn("poisson", rate))], True)
        for model, (_, rate) in MODELS.items()
    ]
    paper = {
        "exclusive": ("1.24x", "1.28x"),
        "mps-l": ("-35%", "-25%"),
        "mps-r": ("-13%", "-21%"),
    }
    for other, texts in paper.items():
        for key, text in zip(("p50_s", "p95_s"), texts, strict=True):
            value = float(np.mean([ratio(runs, other, key) for runs in found]))
            here = f"{value:.2f}x" if other == "exclusive" else f"{value - 1:+.0%}"
            yield Row(f"Figure 7, {key[:3]}, dilu vs. {other}", text, "", here)
    kept = float(np.mean([runs["dilu"].training[0].kept_share for runs in found]))
    yield Row("Figure 7, training speed kept", "97.2%", "", f"{kept:.1%}")


def figure_8() -> Iterator[Row]:
    """Yield two services on a GPU under bursts."""
    pair = [
        service("resnet152", name, drawn("bursty", BURST_RATE, BURST_FACTOR, seed))
        for seed, name in enumerate("AB")
    ]
    runs = on_one_gpu(pair, False)
    for other, text in (("mps-l", "-25%"), ("mps-r", IN_FIGURE), ("exclusive", IN_FIGURE)):
        here = f"{ratio(runs, other, 'p95_s') - 1:+.0%}"
        yield Row(f"Figure 8(b), p95, dilu vs. {other}", text, "", here)


def figure_10() -> Iterator[Row]:
    """Yield latency by the CV of the gaps, beside training."""
    rate = MODELS["resnet152"][1]
    for cv in CVS:
        runs = on_one_gpu([service("resnet152", "A", drawn("gamma", rate, cv))], True)
        last = cv == CVS[-1]
        for other, text in (("exclusive", "+9%"), ("mps-l", "2.08x"), ("mps-r", "4.76x")):
            value, paper = ratio(runs, other, "p95_s"), text if last else IN_FIGURE
            name, here = f"dilu vs. {other}", f"{value - 1:+.0%}"
            if other != "exclusive":
                name, here = f"{other} / dilu", f"{1 / value:.2f}x"
            yield Row(f"Figure 10, p95 at CV {cv:g}, {name}", paper, "", here)


def violations() -> Iterator[Row]:
    """Yield violation rates of a service beside four jobs, by trace and policy.

    Last, a periodic load whose peaks are above what an instance can do: there the order turns.
    """
    wave = (1 + np.sin(2 * np.pi * np.arange(858) / PERIODIC_S)) / 2
    traces = {"periodic": even_arrivals(2 * CAPACITY_RPS * wave)}
    for name in ("bursty", "sporadic"):
        if (DATA / f"{name}.txt").exists():
            traces[name] = even_arrivals(read_rates(DATA / f"{name}.txt"), MULTIPLIER)
    jobs = [TrainingJob(f"job-{at}", TRAINING, TRAINING_REQUEST, TRAINING_LIMIT) for at in range(4)]
    services = {
        name: service("resnet152", "A", traces[name], capacity_rps=CAPACITY_RPS)
        for name in SVR
        if name in traces
    }
    full = service("resnet152", "A", np.zeros(0), capacity_rps=None)
    load = even_arrivals(PEAK * full.capacity() * wave)
    services[f"periodic to {PEAK:g}x capacity"] = replace(full, arrival_s=load)
    for name, one in services.items():
        request = SharingRequest([one], jobs, (), 858, 10, 4, frontier=False)
        paper = SVR[name.split()[0]]
        for policy, late in zip(("fast-gs", "infless", "dilu"), paper, strict=True):
            found = run_policy(policy, COLD_S, request)
            here = f"{found.worst_violation_rate:.1%}"
            yield Row(f"Table 3, requests late, {name}, {policy}", f"{late}%", "", here)


def figure_16(request: SharingRequest) -> Iterator[Row]:
    """Yield work per share of a GPU held, end to end, and what parts of Dilu are for."""
    paper = {
        "exclusive": ("3.8x", "2.5x"), "infless-l": ("2.8x", "2.1x"), "infless-r": ("2.3x", "1.2x"),
    }  # fmt: skip
    dilu = run_policy("dilu", COLD_S, request)
    served, trained = _per_share(dilu, request, "dilu")
    for other, texts in paper.items():
        values = _per_share(run_policy(other, COLD_S, request), request, other)
        times = (served / values[0], trained / values[1])
        for what, text, value in zip(("requests", "training"), texts, times, strict=True):
            yield Row(f"Figure 16, {what} per GPU held, dilu / {other}", text, "", f"{value:.1f}x")
    parts = {
        "-WA": replace(request, settings=PlacementSettings(affinity=False)),
        "-RC": replace(request, settings=PlacementSettings(split=False)),
    }
    said = {"-WA": "a slight decline", "-RC": "a slight gain, one GPU more", "-VS": "+158%, +203%"}
    runs = {name: run_policy("dilu", COLD_S, changed) for name, changed in parts.items()}
    runs["-VS"] = run_policy("mps-r", COLD_S, request)
    for name, run in runs.items():
        late = [one.violation_rate for one in run.functions]
        before = [one.violation_rate for one in dilu.functions]
        here = (
            f"late, mean and worst: {np.mean(late):.2%}, {max(late):.2%} (dilu "
            f"{np.mean(before):.2%}, {max(before):.2%}); {run.max_gpus - dilu.max_gpus:+d} GPUs"
        )
        yield Row(f"Ablation {name}", said[name], "", here)


def _per_share(
    run: CoscalingRow, request: SharingRequest, policy: str
) -> tuple[float, float]:  # of services and of training
    def held(one: Service | TrainingJob) -> float:
        return {"exclusive": 1.0, "infless-l": one.limit}.get(policy, one.request)

    pairs = list(zip(request.services, run.functions, strict=True))
    gpu_s = sum(held(one) * found.instance_s for one, found in pairs)
    finished = sum(found.requests - found.unfinished for _, found in pairs)
    speeds = [
        part.kept_share / held(job) for job, part in zip(request.jobs, run.training, strict=True)
    ]
    return finished / gpu_s, float(np.mean(speeds))
