"""Packages with entry points, installed for one test."""

import importlib
import sys

from gpuplan.analysis import plugins
from gpuplan.analysis.invoices.registry import INVOICE_FORMATS
from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.speedup.registry import LAWS

REGISTRIES = (FORMATS, PRICE_FORMATS, INVOICE_FORMATS, LAWS, POLICIES)


def forget():
    """Forget which packages are installed."""
    importlib.invalidate_caches()
    plugins._entry_points.cache_clear()
    plugins._loaded_modules.clear()
    for registry in REGISTRIES:
        registry._loaded.clear()


def write_package(site, name, code, points, version="1.0"):
    """Write a package of one module and its entry points, ``(group, name, attribute)``."""
    module = name.replace("-", "_")
    site.mkdir(exist_ok=True)
    (site / f"{module}.py").write_text(code, encoding="utf-8")
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = {}
    for group, point, attribute in points:
        groups.setdefault(group, []).append(f"{point} = {module}:{attribute}")
    lines = [line for group, ones in groups.items() for line in (f"[gpuplan.{group}]", *ones)]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return module


def drop_modules(site):
    """Forget the modules of a folder."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(site)):
            del sys.modules[name]
