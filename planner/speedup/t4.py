"""Measured speedups and sizes of six training jobs on AWS g4dn nodes of four T4 GPUs.

Source: the profiling runs published with Sia (Jayaram Subramanya et al., SOSP 2023; artifact
siasosp23/artifacts) and Pollux (Qiao et al., OSDI 2021; artifact petuum/adaptdl, branch
osdi21-artifact). The figures are derived from them: best goodput over batch sizes at each GPU
count, whole job at a fixed width, reduced to the vertices of its concave hull; job sizes carry the
artifact's calibration factor; rescaling times are those of the artifact.
"""

from __future__ import annotations

from gpuplan.planner.speedup.functions import MeasuredSpeedup
from gpuplan.planner.speedup.model import ClassProfile


def measured(work_h: float, rescale_s: float, hull: dict[int, float]) -> ClassProfile:
    """Return the profile of a job of ``work_h`` hours on one GPU, from {GPUs: speedup}."""
    curve = MeasuredSpeedup(tuple(map(float, hull)), tuple(hull.values()))
    return ClassProfile(epochs=(curve,), work_h=work_h, rescale_s=rescale_s, speed=(1 / work_h,))


CLASSES = {
    "bert": measured(  # BERT, SQuAD; accumulates gradients on one GPU, hence above linear at 2
        4.51119,
        120.0,
        {
            2: 2.070688808,
            4: 4.088701954,
            9: 7.42417121,
            10: 7.995291753,
            15: 9.942776095,
            16: 10.22263078,
            34: 14.44101591,
            38: 14.80383165,
            48: 15.08731909,
        },
    ),
    "cifar10": measured(  # ResNet18, CIFAR-10
        1.8586106,
        50.0,
        {1: 1.0, 4: 3.37817107, 11: 6.973152972, 16: 8.52543905, 18: 8.585326659},
    ),
    "deepspeech2": measured(  # DeepSpeech2, CMU-ARCTIC
        5.4984305,
        25.0,
        {
            1: 1.0,
            2: 1.825498544,
            3: 2.647728559,
            4: 3.399212267,
            12: 7.391005235,
            16: 8.425191312,
            18: 8.820485108,
            22: 9.11421808,
            49: 9.920626922,
            53: 10.02489833,
        },
    ),
    "imagenet": measured(  # ResNet50, ImageNet
        177.47982,
        250.0,
        {
            1: 1.0,
            2: 1.934474368,
            6: 5.294551918,
            11: 9.422813834,
            15: 12.28195259,
            29: 20.60813253,
            37: 24.59243446,
            41: 26.50810299,
            45: 28.38338703,
            46: 28.77492768,
            52: 30.82793779,
            56: 32.12336591,
            60: 33.37950508,
            64: 34.55687956,
        },
    ),
    "ncf": measured(0.01913975, 15.0, {1: 1.0, 3: 1.478011425, 4: 1.66762}),  # NeuMF, MovieLens
    "yolov3": measured(  # YOLOv3, PASCAL VOC
        10.319312,
        80.0,
        {
            1: 1.0,
            2: 1.850622801,
            3: 2.328307547,
            4: 2.701233715,
            14: 3.702763327,
            21: 3.840624746,
            61: 4.277465744,
        },
    ),
}
"""Class name -> profile; names are those of the Sia and Pollux workloads."""
