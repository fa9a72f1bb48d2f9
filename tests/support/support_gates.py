"""A result with fields of every kind, for gates."""

import numpy as np

RESULTS = {
    "jobs": 100,
    "span_s": 7200.0,
    "duration_s": {"p50": 60.0, "p95": 18_000.0, "jobs": 90},
    "queue_s": {"p95": None},
    "gpu_time": {"gpu_hours": 12.5, "share": 0.93},
    "price_usd_per_gpu_h": 2.5,
    "wait_h": np.float64(1.5),
    "points": [{"cost_usd": 10.0}, {"cost_usd": 30.0}, {"cost_usd": None}],
    "named": {"state": "completed", "ok": True},
    "duration_cdf": [{"duration_s": 1.0, "share_jobs": 0.1}, {"duration_s": 9e9, "share_jobs": 1}],
    "arrivals": {"by_hour": [5, 7], "per_h": 3.0},
    "short_jobs": {"under_60s": 0.25},
    "offers": [{"available": None}, {"available": {"mean": 2.0}}],
    "gain": {"jct_s_per_gpu": 90.0, "usd_per_month": 1000.0},
    "nothing": float("nan"),
}
