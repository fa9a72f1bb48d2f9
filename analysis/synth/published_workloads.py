"""Figures that papers and trace releases publish of workloads, restated for the presets.

Sources:

* Allpass, Table 1 and section 2.2: users, jobs, mean, median and a third duration (taken as the
  90th percentile, which the distributions of AcmeTrace allow), months covered; more than 80 % of
  jobs within 10 minutes, more than 40 % of the W&B runs ending almost at once.
* AcmeTrace: Hu et al., "Characterization of Large Language Model Development in the Datacenter",
  NSDI 2024, and the summary and figures released with its trace (CC BY 4.0): GPU jobs of Seren,
  Kalos, Philly and Helios; their duration CDF at powers of 2, GPU counts by jobs and by GPU time
  (neighboring rare counts are merged here), mean waits and rates of the states. Its figures
  of Seren show the public table, of which a re-analysis gives states and GPU time.
* Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
  ATC 2019 (Philly), and Hu et al., "Characterization and Prediction of Deep Learning Workloads in
  Large-Scale GPU Datacenters", SC 2021 (Helios): dates and time zones of the releases.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Points = tuple[tuple[float, float], ...]
Triples = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """Published figures of a workload.

    Attributes:
        title: its name, and the jobs covered.
        jobs: jobs of that kind.
        days: days they were submitted in.
        start: first day.
        time_zone: zone of its clock.
        users: distinct users; None where not published.
        duration_cdf: (seconds, percent of jobs of at most that); empty where not published.
        quantiles: published or assumed (probability, seconds), without a CDF.
        mean_s, median_s, p90_s: durations; P90 None where not published.
        longest_s: longest duration.
        gpus: (GPUs, percent of jobs and percent of GPU time with at most that many).
        mean_gpus: published mean; None where not published.
        gpu_time_s: GPU time of all jobs, GPU-seconds; None where not published.
        states: state -> share of jobs; empty where not published.
        states_by_time: state -> share of GPU time; empty where not published.
        wait_mean_s, wait_median_s: waits; None where not published.
        scv: C^2 of the gaps aimed at.
        zero_share: share of zero gaps aimed at.
        notes: assumptions, one sentence each.
    """

    title: str
    jobs: int
    days: float
    start: str
    time_zone: str
    mean_s: float
    median_s: float
    longest_s: float
    users: int | None = None
    duration_cdf: Points = ()
    quantiles: Points = ()
    p90_s: float | None = None
    gpus: Triples = ((1, 100.0, 100.0),)
    mean_gpus: float | None = None
    gpu_time_s: float | None = None
    states: dict[str, float] = field(default_factory=dict)
    states_by_time: dict[str, float] = field(default_factory=dict)
    wait_mean_s: float | None = None
    wait_median_s: float | None = None
    scv: float = 8.0
    zero_share: float = 0.05
    notes: tuple[str, ...] = ()


def _powers(*percent: float) -> Points:
    """Return percentages at 1, 2, 4, ... seconds as points."""
    return tuple((float(2**k), share) for k, share in enumerate(percent))


def _states(completed: float, cancelled: float, failed: float) -> dict[str, float]:
    return {"completed": completed, "cancelled": cancelled, "failed": failed}


GUESSED_ARRIVALS = "C^2 of the gaps is not published: 8 and 5 % zero gaps are assumed"
ONE_GPU = "GPU counts are not published: every job holds one"
NO_STATES = "states and waits are not published: unknown"
ALL_JOBS = "all jobs, as in Table 1 of Allpass"

PUBLISHED = {
    "seren": Published(
        title="Seren, GPU jobs (AcmeTrace)",
        jobs=450_590,
        days=184,
        start="2023-03-01",
        time_zone="+08:00",
        users=131,
        duration_cdf=_powers(
            2.1796,
            2.7843,
            5.6220,
            11.7595,
            23.3762,
            31.7144,
            37.1222,
            48.9094,
            65.6324,
            79.2093,
            88.0317,
            92.9393,
            95.9935,
            97.5335,
            98.4443,
            99.1866,
            99.6416,
            99.8309,
            99.9308,
            99.9780,
            99.9967,
            100.0,
        ),
        mean_s=1593.0,
        median_s=134.0,
        longest_s=1_209_604.0,
        gpus=(
            (1, 54.038, 1.349),
            (2, 65.426, 1.792),
            (4, 67.945, 2.366),
            (8, 96.748, 11.922),
            (16, 97.861, 13.153),
            (32, 98.818, 19.115),
            (48, 98.887, 19.240),
            (64, 99.316, 27.590),
            (96, 99.356, 28.692),
            (128, 99.551, 41.690),
            (192, 99.575, 43.616),
            (256, 99.733, 56.303),
            (320, 99.742, 57.567),
            (352, 99.753, 59.310),
            (384, 99.761, 60.662),
            (400, 99.766, 61.500),
            (448, 99.779, 64.149),
            (512, 99.862, 69.691),
            (768, 99.937, 85.500),
            (960, 99.957, 87.403),
            (1024, 100.0, 100.0),
        ),
        gpu_time_s=5_626_520 * 3600.0,
        states=_states(0.461, 0.102, 0.339) | {"preempted": 0.097},
        wait_mean_s=445.984,
        wait_median_s=1.0,
        notes=(
            "mean (1,593 s) and median (134 s) follow from the CDFs and the GPU time, they are not "
            "published",
            "waits are those of the summary, which describes a larger table (663,813 GPU jobs)",
            GUESSED_ARRIVALS,
        ),
    ),
    "kalos": Published(
        title="Kalos, GPU jobs (AcmeTrace)",
        jobs=19_907,
        days=92,
        start="2023-05-17",
        time_zone="+08:00",
        users=12,
        duration_cdf=_powers(
            0.0,
            0.0,
            0.0,
            0.0100,
            1.4819,
            18.7221,
            38.1876,
            50.4747,
            69.0963,
            79.4494,
            85.9396,
            92.7664,
            97.0563,
            98.6789,
            99.1109,
            99.4525,
            99.6634,
            99.8342,
            99.9498,
            99.9799,
            100.0,
        ),
        mean_s=1259.689,
        median_s=124.0,
        longest_s=625_740.0,
        gpus=(
            (1, 86.281, 0.154),
            (2, 88.356, 0.161),
            (8, 93.917, 0.624),
            (16, 94.258, 0.639),
            (32, 94.650, 1.959),
            (64, 95.303, 3.259),
            (96, 95.338, 3.518),
            (128, 95.680, 3.747),
            (256, 96.896, 24.884),
            (496, 97.021, 26.789),
            (504, 97.202, 36.722),
            (512, 98.940, 64.142),
            (1024, 100.0, 100.0),
        ),
        mean_gpus=26.77,
        gpu_time_s=5_333_182_061.0,
        states=_states(0.541, 0.062, 0.397),
        states_by_time=_states(0.313, 0.607, 0.080),
        wait_mean_s=214.179,
        wait_median_s=17.0,
        scv=6.86,
        zero_share=0.0,
        notes=(
            "published Kalos durations include the wait",
            "C^2 of the gaps (6.86) is that of 319 of its jobs",
        ),
    ),
    "philly": Published(
        title="Philly, GPU jobs (AcmeTrace)",
        jobs=112_956,
        days=138,
        start="2017-08-07",
        time_zone="America/Los_Angeles",
        duration_cdf=_powers(
            0.0257,
            0.0797,
            0.1664,
            0.8224,
            3.6173,
            8.4219,
            18.8817,
            26.9857,
            31.5025,
            36.2814,
            54.9143,
            67.4652,
            79.2804,
            84.5975,
            90.2865,
            92.7140,
            94.8591,
            96.9493,
            98.3932,
            99.3157,
            99.8008,
            99.9548,
        ),
        mean_s=18_006.055,
        median_s=874.0,
        longest_s=4_240_676.0,
        gpus=(
            (1, 82.421, 16.425),
            (2, 84.483, 19.396),
            (4, 92.046, 38.165),
            (8, 98.906, 88.028),
            (16, 99.805, 97.196),
            (24, 99.828, 97.467),
            (32, 99.979, 99.996),
            (64, 100.0, 100.0),
        ),
        mean_gpus=1.928,
        gpu_time_s=6_894_717_531.0,
        states=_states(0.604, 0.090, 0.305),
        states_by_time=_states(0.321, 0.294, 0.386),
        wait_mean_s=3760.604,
        wait_median_s=189.0,
        scv=163.0,
        zero_share=0.0687,
        notes=(
            "C^2 of the gaps (163) and the share of zero gaps are those of seven virtual clusters",
            "the number of users is not published: 300 are assumed",
        ),
    ),
    "helios": Published(
        title="Helios, GPU jobs (AcmeTrace)",
        jobs=1_580_464,
        days=183,
        start="2020-04-01",
        time_zone="+08:00",
        duration_cdf=_powers(
            3.9973,
            4.9344,
            6.3502,
            7.6994,
            10.7219,
            16.1501,
            24.8809,
            37.8110,
            56.5740,
            67.5785,
            75.2461,
            84.0997,
            87.5337,
            90.7501,
            94.3641,
            96.2647,
            97.7698,
            98.9004,
            99.5497,
            99.8573,
            99.9629,
            99.9996,
        ),
        mean_s=6651.681,
        median_s=206.0,
        longest_s=4_320_009.0,
        gpus=(
            (1, 72.189, 5.441),
            (2, 74.747, 7.162),
            (4, 80.471, 12.138),
            (6, 80.675, 12.529),
            (8, 94.690, 41.344),
            (16, 97.721, 61.500),
            (24, 98.076, 63.363),
            (32, 99.350, 86.632),
            (40, 99.448, 87.850),
            (48, 99.545, 89.776),
            (56, 99.607, 90.449),
            (64, 99.734, 94.379),
            (80, 99.810, 95.354),
            (120, 99.881, 96.689),
            (144, 99.934, 97.564),
            (160, 99.946, 98.600),
            (192, 99.994, 99.927),
            (1024, 99.995, 99.950),
            (2048, 100.0, 100.0),
        ),
        mean_gpus=3.716,
        gpu_time_s=77_997_740_147.0,
        states=_states(0.624, 0.221, 0.155),
        states_by_time=_states(0.513, 0.394, 0.093),
        wait_mean_s=862.047,
        wait_median_s=0.0,
        notes=(GUESSED_ARRIVALS, "the number of users is not published: 300 are assumed"),
    ),
    "wandb": Published(
        title=f"fine-tuning runs on Weights & Biases, {ALL_JOBS}",
        jobs=6021,
        days=1734,
        start="2020-10-01",
        time_zone="UTC",
        users=13,
        # 40 % end almost at once; with this P80 the longest 10 % have above 84 % of the time
        quantiles=((0.0, 1.0), (0.4, 8.0), (0.5, 32.0), (0.8, 120.0), (0.9, 2025.0)),
        mean_s=630.0,
        median_s=32.0,
        p90_s=2025.0,
        longest_s=259_200.0,
        notes=(ONE_GPU, GUESSED_ARRIVALS, NO_STATES, "no run is taken to last above 3 days"),
    ),
    "abc": Published(
        title=f"notebook jobs of the platform ABC, {ALL_JOBS}",
        jobs=547_390,
        days=92,
        start="2021-06-01",
        time_zone="UTC",
        users=3647,
        quantiles=((0.0, 60.0), (0.5, 120.0), (0.9, 268.0)),
        mean_s=1020.0,
        median_s=120.0,
        p90_s=268.0,
        longest_s=604_800.0,
        notes=(ONE_GPU, GUESSED_ARRIVALS, NO_STATES, "no job is taken to last above 7 days"),
    ),
}
