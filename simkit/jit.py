"""The decorator for kernels: compiled on first use, cached on disk if possible."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import TargetConfig
from numba.core.types.misc import unliteral

from gpuplan.simkit.kernel_sources import stamp_of

LOG = logging.getLogger("gpuplan")
Function = TypeVar("Function", bound=Callable[..., Any])
ALL = {"nogil": True, "no_cfunc_wrapper": True}  # no kernel is called by C


def kernel(function: Function) -> Function:
    """Compile a function with numba when it is first called; it then runs without the GIL.

    The machine code is kept next to the source, or in the user's cache directory, or, where neither
    can be written, in a folder of the user's among the temporary files; else only in memory. With
    ``NUMBA_DISABLE_JIT=1`` the function stays Python.
    """
    return _compiled(function)


def borrowing_kernel(function: Function) -> Function:
    """Compile a function that makes no array: it works on those of its caller alone.

    Its code counts no references to arrays. That pays where small functions take many arrays.
    """
    return _compiled(function, _nrt=False)


def helper(function: Function) -> Function:
    """Compile a function that only kernels call, as a part of each.

    It has no code that takes its arguments from Python, which for tables of many arrays takes
    longer to compile than the function itself, and no machine code of its own.
    """
    return _part(function)


def borrowing_helper(function: Function) -> Function:
    """Compile a function that only kernels call, and that makes no array."""
    return _part(function, _nrt=False)


def _part(function: Function, **options: Any) -> Function:
    compiled: Any = numba.njit(
        function, no_cpython_wrapper=True, pipeline_class=_PartCompiler, **ALL, **options
    )
    if numba.config.DISABLE_JIT:
        return compiled  # type: ignore[no-any-return]
    compiled.get_call_template = _of_any_number(compiled.get_call_template)
    compiled._insert = lambda *_, **__: None  # a call from Python finds no code and asks for it
    compiled._compile_for_args = _refusal(function.__name__)
    return compiled  # type: ignore[no-any-return]


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a helper, which is optimized where a kernel takes it in.

    Numba would optimize it here as well, with all that it calls, and once more in each helper on
    the way up to the kernel: most of the time that a kernel of many helpers took to compile.
    """

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # there is none

    @property
    def codegen(self) -> _Part:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Leave out what only code that runs as Python needs."""


class _PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles a helper."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        self.state.library = _Part(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


def _compiled(function: Function, **options: Any) -> Function:
    options |= ALL
    compiled: Any
    is_cached = True
    try:
        compiled = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no directory that can hold a cache
        try:
            _use_temporary_cache()
            compiled = numba.njit(function, cache=True, **options)
        except (OSError, RuntimeError):
            compiled, is_cached = numba.njit(function, **options), False
    if numba.config.DISABLE_JIT:
        return compiled  # type: ignore[no-any-return]
    compiled.get_call_template = _of_any_number(compiled.get_call_template)
    if is_cached:
        # Numba takes a cached kernel as fresh as long as its own file is, although it contains
        # the code of helpers and the constants of other files too; so let these files count.
        kept = compiled._cache._cache_file
        kept._source_stamp = (kept._source_stamp, stamp_of(function.__code__.co_filename))
        saved = _whatever_is_there(compiled._cache.save_overload, compiled._cache.flush)
        compiled._cache.save_overload = _unless_disk_full(saved)
        compiled._cache.load_overload = _unless_damaged(compiled._cache.load_overload)
    return compiled  # type: ignore[no-any-return]


def _of_any_number(template: Callable[..., Any]) -> Callable[..., Any]:
    """Let a call with a literal, such as 0, use the code for all numbers of its type.

    Numba would compile the function once more for each literal, also where that is only the first
    value of a variable: such code never runs.
    """

    def plain(args: Any, kws: Any) -> Any:
        return template(
            tuple(map(unliteral, args)),
            {name: unliteral(kind) for name, kind in dict(kws).items()},
        )

    return plain


def _refusal(name: str) -> Callable[..., None]:
    """Return what a call of a helper from Python runs."""

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(f"{name} is a helper: only kernels can call it")

    return refuse


def _same_flags(flags: Any, others: Any) -> bool:
    """Return whether two sets of numba's flags are the same, looking only at those that are set."""
    if type(flags) is not type(others):
        return False
    left, right, options = flags._values, others._values, flags.options
    return all(
        left.get(name, options[name].default) == right.get(name, options[name].default)
        for name in {*left, *right}
    )


# Numba makes tables of all flags for each comparison: an eighth of the time that a kernel of many
# helpers takes to compile. Its hash is of the names of the flags alone, so one for all of a kind.
if "_values" in getattr(TargetConfig, "__slots__", ()):
    TargetConfig.__eq__ = _same_flags
    TargetConfig.__hash__ = lambda flags: len(flags.options)


def _use_temporary_cache() -> None:
    """Let numba, here and in child processes, keep machine code in a folder of this user's own.

    A folder that others can write to is not used: they could put code there. Raises `OSError`.
    """
    folder = Path(tempfile.gettempdir()) / f"gpuplan-kernels-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        LOG.warning("compiled kernels are kept in %s: no other folder can be written", folder)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise OSError(f"{folder} is not a private folder of this user")
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(folder)


def _unless_disk_full(save: Callable[..., None]) -> Callable[..., None]:
    """Let a full disk cost the next run a compilation instead of ending this one."""

    def saved(*what: Any) -> None:
        with suppress(OSError):
            save(*what)

    return saved


def _whatever_is_there(save: Callable[..., None], flush: Callable[[], None]) -> Callable[..., None]:
    """Let a damaged index of the cache be made again."""

    def saved(*what: Any) -> None:
        try:
            save(*what)
        except OSError:
            raise
        except Exception:  # whatever damaged bytes may raise when they are unpickled
            flush()
            save(*what)

    return saved


def _unless_damaged(load: Callable[..., Any]) -> Callable[..., Any]:
    """Let a damaged file of the cache cost a compilation, which writes it again."""

    def loaded(*what: Any) -> Any:
        try:
            return load(*what)
        except Exception:  # whatever damaged bytes may raise when they are unpickled or linked
            return None

    return loaded


@contextmanager
def compiling(callback: Callable[[], None]) -> Iterator[None]:
    """Call ``callback`` once if numba compiles something inside the block.

    Loading a kernel from the cache is quick and does not count. The call comes from whichever
    thread starts the first compilation.
    """
    with event.install_listener("numba:compile", _Once(callback)):
        yield


class _Once(event.Listener):  # type: ignore[misc]
    """Calls back at the first start of an event, whatever the thread."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.first = threading.Lock()

    def on_start(self, event: Any) -> None:
        if self.first.acquire(blocking=False):
            self.callback()

    def on_end(self, event: Any) -> None:
        pass
