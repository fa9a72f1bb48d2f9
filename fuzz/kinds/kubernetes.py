"""Dumps of Kubernetes: Workloads and queues of Kueue, watch streams, pods, and their metrics."""

from __future__ import annotations

from functools import cache

from fuzz.corpus import ROOT, kueue_site, kueue_twin, opencost_answer
from fuzz.kinds.subject import KUBERNETES, Subject
from fuzz.values import DURATIONS, NUMBERS

SAMPLES = ROOT / "sample_traces"
DUMPS = ("kueue.json", "watch.json", "pods.json", "metrics.json")
QUEUES = ("team-a", "team-b", "research", "x", "")
QUOTAS = tuple(
    f"clusterqueue.{queue}.{key}"
    for queue in ("team-a", "team-b", "x")
    for key in ("nominalQuota", "borrowingLimit", "lendingLimit", "cohort", "x", "queueingStrategy")
)
WHATIF_KUEUE = ("whatif", "kueue.json", "--site", "kueue.json")
TO = ("--gpus", "8", "--limit", "2h", "--partition", "team-a")
ETA_KUEUE = ("eta", "kueue.json", "--twin", "kueue.toml", *TO)


@cache
def dumps() -> dict[str, bytes]:
    """Return dumps of the sample sites, the settings calibrated on one, and an invoice."""
    return {
        "kueue.json": kueue_site(),
        "kueue.toml": kueue_twin(),
        "watch.json": (SAMPLES / "kueue" / "watch.json").read_bytes(),
        "pods.json": (SAMPLES / "kube" / "kube.json").read_bytes(),
        "metrics.json": (SAMPLES / "kube" / "kube_metrics.json").read_bytes(),
        "opencost.json": opencost_answer(),
        "types.csv": b"node,gpu_type\nh100-0,H100\n*,A100\n",
    }


KUBERNETES_DUMPS = Subject(
    (
        *(("ingest", name, "-o", "out.parquet") for name in DUMPS),
        *((command, name) for command in ("waits", "characterize") for name in DUMPS),
        ("calibrate", "kueue.json"), ("calibrate", "kueue.json", "-o", "out.toml"),
        (*WHATIF_KUEUE, "--set", "clusterqueue.team-a.nominalQuota=16"), WHATIF_KUEUE,
        ("whatif", "kueue.json", "--twin", "kueue.toml", "--add-nodes", "a100=1"),
        ("whatif", "kueue.json", "--twin", "kueue.toml", "--scale-load", "1.2"), ETA_KUEUE,
        *(("simulate", "kueue.json", "--policy", name, "--site", "kueue.json")
          for name in ("kueue", "kai")),
        ("compare", "kueue.json", "--policy", "kueue", "--policy", "kai", "--site", "kueue.json"),
        ("bill", "kueue.json", "--price", "2", "--invoice", "opencost.json"),
        ("size", "pods.json", "--target", "p95_wait <= 1h", "--ci", "0"),
    ),
    {
        "--set": tuple(f"{key}=" for key in QUOTAS), "--add-nodes": ("h100=2", "100000", "x=1"),
        "--scale-load": ("0.5", "1.2", *NUMBERS), "--gpus": ("1", "8", "1024", *NUMBERS),
        "--partition": QUEUES, "--limit": DURATIONS, "--by": ("user", "queue", "cohort", "x"),
        "--gang": ("job-name", "example.com/gang", "x", ""), "--include-cpu": ("", "x"),
        "--gpu-resource": ("nvidia.com/gpu", "cpu", "google.com/tpu", "x", ""),
        "--user-label": ("user", "app", "x", ""), "--node-types": ("types.csv", "missing.csv", ""),
        "--metric": ("kube_pod_created=kube_pod_info", "x=y", "=", "a="),
        "--time-zone": ("UTC", "Asia/Tokyo", "x"), "--cluster": ("8x8", "H100=2x8,A100=4x8", "x"),
    },
    ("kueue.json", "kueue.toml", "watch.json", "pods.json", "metrics.json", "opencost.json"),
    dumps, ("kueue", "kai"), KUBERNETES,
)  # fmt: skip
