"""What matters of each command in a comparison, and what people call it."""

WORKLOAD, COST, JCT = "workload", "cost", "completion time"

SUBJECTS: dict[str, dict[str, tuple[str, str]]] = {
    "characterize": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_time.gpu_hours": (WORKLOAD, "GPU-hours"),
        "duration_s.mean": (WORKLOAD, "mean duration"),
        "duration_s.p95": (WORKLOAD, "p95 duration"),
        "load.mean_gpus": (WORKLOAD, "mean load"),
        "prices.cheapest_each_hour.cost_usd": (COST, "least cost"),
        "queue_s.mean": (JCT, "mean wait"),
    },
    "pareto": {
        "jobs": (WORKLOAD, "jobs"),
        "load_gpus": (WORKLOAD, "load"),
        "knee.budget_gpus": (COST, "GPUs at the best trade-off"),
        "knee.usd_per_month": (COST, "cost per month at the best trade-off"),
        "knee.mean_jct_s": (JCT, "planned mean JCT at the best trade-off"),
        "knee.replay.mean_jct_s": (JCT, "mean JCT at the best trade-off"),
        "knee.replay.p95_jct_s": (JCT, "P95 JCT at the best trade-off"),
    },
    "sweep": {
        "jobs": (WORKLOAD, "jobs"),
        "serverless_only.cost_usd": (WORKLOAD, "cost on serverless GPUs alone"),
        "recommended.cost_usd": (COST, "recommended cost"),
        "recommended.mean_jct_s": (JCT, "mean JCT as recommended"),
    },
    "bill": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "usd_per_month": (COST, "monthly bill"),
        "idle_usd_per_month": (COST, "idle part of the bill"),
    },
    "bill of a period": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "usd": (COST, "bill of the period"),
        "idle_usd": (COST, "idle part of the bill"),
    },
    "forecast": {"usd": (COST, "forecast of all months"), "totals.usd": (COST, "forecast")},
    "size": {
        "jobs": (WORKLOAD, "jobs"),
        "gpus": (COST, "GPUs needed"),
        "usd_per_month": (COST, "monthly cost"),
        "commitment.committed_gpus": (COST, "GPUs to commit to"),
        "commitment.usd_per_month": (COST, "monthly cost with a commitment"),
    },
    "plan": {
        "jobs": (WORKLOAD, "jobs"),
        "usd_per_month": (COST, "monthly cost"),
        "markets.gpus": (COST, "GPUs"),
        "mean_time_s": (JCT, "mean time of a job"),
    },
    "compare": {
        "jobs": (WORKLOAD, "jobs"),
        "policies.cost_usd": (COST, "cost"),
        "policies.mean_jct_s": (JCT, "mean JCT"),
    },
    "simulate": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "cost_usd": (COST, "cost"),
        "mean_jct_s": (JCT, "mean JCT"),
        "p95_jct_s": (JCT, "P95 JCT"),
    },
}
"""What matters of each command: path -> its subject, and what the headline calls it."""
