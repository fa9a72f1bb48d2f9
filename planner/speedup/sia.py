"""The jobs of `gpuplan.planner.speedup.t4` on several GPU types.

Source and derivation are those of the T4 figures (Sia and Pollux artifacts): RTX 2080 Ti is the
cluster ``rtx`` of the Sia artifact, 8 GPUs per node, measured up to 24 GPUs; A100 is ``dgx``, 8
per node, measured up to 16. Curves end with the measurements; the artifact's simulator continues
with a fitted model, which is not measured. Speeds are the inverse of the hours on one GPU, so
that a job is the same work on every type; its batch size may differ, as it does in the artifact.
"""

from __future__ import annotations

from gpuplan.planner.speedup import t4
from gpuplan.planner.speedup.t4 import measured

RTX_2080_TI = {
    "bert": measured(
        2.18832,
        120.0,
        {
            2: 2.03527,
            4: 3.84907,
            5: 4.60557,
            9: 7.14702,
            15: 9.22555,
            16: 9.55874,
            19: 10.1747,
            21: 10.3732,
        },
    ),
    "cifar10": measured(
        0.902405,
        50.0,
        {
            1: 1.0,
            2: 1.94972,
            3: 2.7043,
            4: 3.34234,
            6: 4.50327,
            8: 5.28736,
            9: 5.56271,
            10: 5.78874,
            13: 6.43821,
            17: 6.70404,
            20: 6.86704,
        },
    ),
    "deepspeech2": measured(
        3.23339, 25.0, {1: 1.0, 3: 2.26663, 7: 4.46259, 10: 5.75691, 15: 7.27905, 24: 8.22659}
    ),
    "imagenet": measured(
        89.0185,
        250.0,
        {
            1: 1.0,
            2: 1.96709,
            4: 3.67,
            6: 5.26772,
            9: 7.40246,
            15: 11.5558,
            19: 13.7303,
            21: 14.701,
            22: 15.0432,
            23: 15.3606,
            24: 15.5148,
        },
    ),
    "ncf": measured(0.0245701, 15.0, {1: 1.0, 2: 1.9648}),
    "yolov3": measured(
        20.3677,
        80.0,
        {
            3: 3.05558,
            5: 4.88304,
            6: 5.45108,
            7: 6.00091,
            13: 8.38461,
            14: 8.64219,
            15: 8.81471,
            20: 9.5688,
            21: 9.70366,
            24: 9.95097,
        },
    ),
}

A100 = {
    "bert": measured(0.79401, 120.0, {2: 2.15007, 3: 3.2006, 8: 7.93619, 10: 9.77857, 16: 15.0436}),
    "cifar10": measured(
        0.366489,
        50.0,
        {
            2: 2.06605,
            3: 2.87173,
            4: 3.59516,
            5: 4.14956,
            6: 4.65515,
            9: 5.86198,
            11: 6.42463,
            13: 6.95961,
            16: 7.03593,
        },
    ),
    "deepspeech2": measured(
        3.76562, 25.0, {1: 1.0, 2: 1.89317, 4: 3.56222, 7: 5.54882, 14: 8.77745, 16: 8.95215}
    ),
    "imagenet": measured(
        52.1479, 250.0, {2: 2.0108, 3: 3.013, 5: 4.68799, 7: 6.25952, 14: 11.5764, 15: 12.2408}
    ),
    "ncf": measured(0.0140673, 15.0, {2: 2.09515}),
    "yolov3": measured(10.3122, 80.0, {1: 1.0, 2: 1.96443, 9: 4.75108, 15: 6.24271, 16: 6.46995}),
}

TYPES = {"T4": t4.CLASSES, "RTX2080Ti": RTX_2080_TI, "A100": A100}
"""GPU type -> class name -> profile."""
