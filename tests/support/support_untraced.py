"""Keep line coverage out of slow parts of other packages, which it makes half as slow again."""

import functools
import sys
from importlib import import_module

SLOW_PARTS = (
    ("numba.core.dispatcher", "Dispatcher", "_compile_for_args"),
    ("matplotlib.figure", "Figure", "savefig"),
    ("matplotlib.layout_engine", "ConstrainedLayoutEngine", "execute"),
)


def untrace_rewriting() -> None:
    """Let pytest rewrite the assertions of test files without a tracer."""
    module = import_module("_pytest.assertion.rewrite")
    module._rewrite_test = untraced(module._rewrite_test)


def untrace_slow_parts() -> None:
    """Replace the methods of modules that are loaded by ones that run without a tracer."""
    for module, name, method in SLOW_PARTS:
        if module in sys.modules:
            owner = getattr(import_module(module), name)
            setattr(owner, method, untraced(getattr(owner, method)))


def untraced(function):
    """Return a function that runs as it did, with the tracer of its thread switched off."""

    @functools.wraps(function)
    def run(*arguments, **options):
        tracer = sys.gettrace()
        if tracer is None:
            return function(*arguments, **options)
        sys.settrace(None)
        try:
            return function(*arguments, **options)
        finally:
            sys.settrace(tracer)
            _wake()

    return run


def _wake() -> None:
    """Do nothing: a tracer that is set sees the next call, and from then on all returns."""
