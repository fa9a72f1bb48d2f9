"""Purchase plans: every lever, targets, budgets, and a plan that is kept."""

from __future__ import annotations

from functools import cache

from fuzz.corpus import option_files, said_by, traces
from fuzz.kinds.subject import Subject
from fuzz.values import DURATIONS, NUMBERS

BASE = ("plan", "lab.parquet", "--on-demand", "1.29")
COMMIT = (*BASE, "--commit", "0.9")
SHARES = ("30%", "0", "0%", "100%", "101%", "-1%", "1", *NUMBERS)
PLAN_PRICES = ("0.9", "A100=0.9", "A100-80GB=1,L4=0.5", "0", "0.001", "-1", "=1", "x", "T4=1",
               *NUMBERS)  # fmt: skip
PLAN_TARGETS = ("mean_jct <= now", "mean_jct <= 3h", "p95_wait <= 1h", "mean_jct <= 1s", "x <= 1",
                "mean_jct <= nan", "p95_wait <= 0", "mean_jct <= 1e300h")  # fmt: skip


@cache
def plan_files() -> dict[str, bytes]:
    """Return traces, the files of options, a price book, and a plan to stay with."""
    files = {**traces(), **option_files()}
    files["book.toml"] = (
        b'[[owned]]\ngpu_type = "A100-80GB"\ngpus = 4\n\n[[commitment]]\ngpu_type = "A100-80GB"\n'
        b"gpus = 2\nusd_per_gpu_h = 0.9\nfrom = 2024-03-01\nuntil = 2025-03-01\n"
    ) + b"".join(
        b'\n[[price]]\ngpu_type = "%b"\nkind = "on_demand"\nusd_per_gpu_h = %b\n' % row
        for row in ((b"A100-80GB", b"1.9"), (b"L4", b"0.6"))
    )
    files["plan.toml"] = said_by(*COMMIT, "-o", "plan.toml", files=files, output="plan.toml")
    return files


PLANS = Subject(
    (
        BASE, COMMIT, (*COMMIT, "-o", "out.toml"), (*COMMIT, "--target", "mean_jct <= now"),
        ("plan", "rich.parquet", "--on-demand", "1.29", "--commit", "0.9:1y,0.7:3y"),
        (*COMMIT, "--spot", "num_gpus <= 2", "--spot-price", "0.5"),
        (*BASE, "--serverless", "2.1", "--speedup", "power:0.8"),
        (*COMMIT, "--defer", "num_gpus <= 2:12h", "--growth", "20%"),
        (*COMMIT, "--cluster", "8x8", "--policy", "fifo"), (*COMMIT, "--keep", "plan.toml"),
        ("plan", "rich.parquet", "--contracts", "book.toml", "--gpu", "L4"),
        (*BASE, "--budget", "$9000/month", "--speedup", "speedups.csv"),
        (*COMMIT, "--export", "slurm", "-o", "made"), (*COMMIT, "--export", "kueue", "-o", "made"),
        (*COMMIT, "--services", "functions.toml"), (*COMMIT, "--lend", "0.3"),
        ("plan", "rich.parquet", "--on-demand", "1.3", "--gpu", "L4", "--owned", "L4=8@0.3"),
    ),
    {
        "--target": PLAN_TARGETS, "--commit": ("0.9:1y", "A100=24@1.05", ":1y", "0.9:0y",
                                               "0.9:1e9y", *PLAN_PRICES),
        "--on-demand": PLAN_PRICES, "--spot-price": PLAN_PRICES, "--serverless": PLAN_PRICES,
        "--budget": ("$9000/month", "$1/month", "1e300/h", "$0/month", "9000", "$nan/month", "x"),
        "--slower": ("1.25x", "1x", "0.5x", "infx", "1e300x", "x", *NUMBERS),
        "--levers": ("commitment", "widths,spot", "serverless", "x", "", ",", "commitment,x"),
        "--growth": ("20%", "0", "-50%", "-20%:50%", "50%:20%", "1e300%", *NUMBERS),
        "--cluster": ("8x8", "1", "16777216", "A100-80GB=8", "x8", "0", "8,8"),
        "--owned": ("A100=8", "A100-80GB=8@0.35", "A100=0", "x=-1", "A100=1e300", "=1", "8"),
        "--spot": ("num_gpus <= 2", "true", "false", "x", "num_gpus +"),
        "--spot-hazard": ("1/12h", "0/1h", "1/0h", "1e300/1s", "-1/1h", "1", "x"),
        "--spot-max": SHARES, "--holdout": SHARES, "--hysteresis": SHARES,
        "--defer": ("num_gpus <= 2:12h", "true:1s", "true:1e9h", "false:1h", "x:1h", "true", ":1h"),
        "--speedup": ("power:0.8", "speedups.csv", "pollux:pollux.csv", "power:0", "power:nan"),
        "--provision-delay": DURATIONS, "--release-delay": DURATIONS, "--billing": DURATIONS,
        "--scale-duration": ("0.5", *NUMBERS), "--scale-interarrival": ("0.5", *NUMBERS),
        "--export": ("slurm", "kueue", "csv", "x"), "--lend": PLAN_PRICES,
        "--by": ("class", "group", "user", "all", "num_gpus", "x"),
        "--load": ("poisson:5", "a=poisson:5", "x=poisson:5", "poisson:1e300", "rates.txt"),
    },
    ("lab.parquet", "rich.parquet", "plan.toml", "book.toml", "functions.toml", "speedups.csv"),
    plan_files,
)  # fmt: skip
