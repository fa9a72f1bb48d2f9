"""GPUs of Amazon's instance types, to turn a price per instance into one per GPU.

From Amazon's instance type pages, as of 2025; sizes that are no longer sold are in it for old
histories. A type that is not here has no GPU, or one that this table does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

_SMALL = ("xlarge", "2xlarge", "4xlarge", "8xlarge")

_FAMILIES: dict[str, tuple[str, dict[str, int]]] = {
    "cg1": ("M2050", {"4xlarge": 2}),
    "g2": ("K520", {"2xlarge": 1, "8xlarge": 4}),
    "g3": ("M60", {"4xlarge": 1, "8xlarge": 2, "16xlarge": 4}),
    "g3s": ("M60", {"xlarge": 1}),
    "g4dn": ("T4", dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "metal": 8}),
    "g5": (
        "A10G",
        dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    ),
    "g5g": ("T4G", dict.fromkeys(_SMALL, 1) | {"16xlarge": 2, "metal": 2}),
    "g6": (
        "L4",
        dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    ),
    "g6e": (
        "L40S",
        dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    ),
    "gr6": ("L4", {"4xlarge": 1, "8xlarge": 1}),
    "p2": ("K80", {"xlarge": 1, "8xlarge": 8, "16xlarge": 16}),
    "p3": ("V100-16GB", {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    "p3dn": ("V100-32GB", {"24xlarge": 8}),
    "p4d": ("A100-40GB", {"24xlarge": 8}),
    "p4de": ("A100-80GB", {"24xlarge": 8}),
    "p5": ("H100-80GB", {"4xlarge": 1, "48xlarge": 8}),
    "p5e": ("H200", {"48xlarge": 8}),
    "p5en": ("H200", {"48xlarge": 8}),
    "p6-b200": ("B200", {"48xlarge": 8}),
}


def _types() -> Iterator[tuple[str, tuple[str, int]]]:
    for family, (gpu, sizes) in _FAMILIES.items():
        for size, gpus in sizes.items():
            yield f"{family}.{size}", (gpu, gpus)


AWS_INSTANCES: dict[str, tuple[str, int]] = dict(_types())
"""Instance type -> its GPU and how many of them."""
