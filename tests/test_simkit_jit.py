"""Kernels compile lazily, say so once, and live without a cache directory."""

import importlib.util
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import pytest
from numba.core.compiler import Flags

from gpuplan.planner.frontier.methods import walk
from gpuplan.simkit import jit
from gpuplan.simkit.kernel_sources import ROOT, imports_of, stamp_of
from gpuplan.simkit.twin import snapshot

KERNEL = """
from gpuplan.simkit.jit import compiling, kernel

@kernel
def double(x):
    return 2 * x
"""


def run(folder: Path, script: str, **environment: str) -> str:
    (folder / "doubling.py").write_text(KERNEL)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=folder,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Import a source anew, as another process would, with a cache of its own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))

    def loaded(source):
        path = tmp_path / "loaded.py"
        if not path.exists():  # the cache goes by its time of change
            path.write_text(source)
        spec = importlib.util.spec_from_file_location("loaded", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def compilations(call):
    """Return how often a call says that it compiles, and what it returns."""
    said = []
    with jit.compiling(lambda: said.append(1)):
        returned = call()
    return len(said), returned


COUNT = """
    from doubling import compiling, double
    said = []
    with compiling(lambda: said.append(1)):
        print(double(21), double(4.0), len(said))
"""


def test_compiling_speaks_once_and_not_when_the_cache_has_the_kernel(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(tmp_path, COUNT, **cache) == "42 8.0 1\n"
    assert run(tmp_path, COUNT, **cache) == "42 8.0 0\n"


@pytest.mark.slow
def test_a_damaged_cache_is_made_again(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run(tmp_path, COUNT, **cache)
    for kind, damage in (("nbi", b""), ("nbc", b"\x80damaged")):
        (found, *_) = (tmp_path / "cache").rglob(f"*.{kind}")
        found.write_bytes(damage)
        assert run(tmp_path, COUNT, **cache) == "42 8.0 1\n"
    assert run(tmp_path, COUNT, **cache) == "42 8.0 0\n"


def test_a_change_of_what_a_kernel_is_made_of_makes_the_cache_stale(load, monkeypatch):
    assert compilations(lambda: load(KERNEL).double(21)) == (1, 42)
    assert compilations(lambda: load(KERNEL).double(21)) == (0, 42)
    monkeypatch.setattr(jit, "stamp_of", lambda path: "other")
    assert compilations(lambda: load(KERNEL).double(21)) == (1, 42)


def names_in_stamp(module):
    return {Path(name).as_posix() for name in stamp_of(module.__file__)}


def test_a_kernel_is_made_of_what_its_file_imports():
    # begin_running calls a helper of state, whose constants are those of other files.
    assert names_in_stamp(snapshot) >= {
        "simkit/twin/snapshot.py",
        "simkit/twin/state.py",
        "simkit/jit.py",
    }
    assert "simkit/allpass/kernel.py" not in names_in_stamp(snapshot)
    # The walk runs class_hull, whose code is its own once it is linked; job_class has no kernel,
    # so that what job_class imports is in no kernel of the walk.
    names = names_in_stamp(walk)
    assert "planner/frontier/model/extreme_points.py" in names
    assert "planner/elastic/job_class.py" in names and "analysis/base/errors.py" not in names


def test_a_file_imports_names_of_packages_and_of_files(tmp_path):
    path = tmp_path / "made_up.py"
    path.write_text(
        "from gpuplan.simkit.quota import (\n    columns as col,\n)\n"
        "    from gpuplan.simkit.heap import pop\n"
    )
    found = {Path(file).relative_to(ROOT).as_posix() for file in imports_of(str(path))}
    assert found == {"simkit/quota/__init__.py", "simkit/quota/columns.py", "simkit/heap.py"}


def test_nothing_compiles_when_a_kernel_is_defined(load):
    count, loaded = compilations(lambda: load(KERNEL))
    assert (count, loaded.double(21)) == (0, 42)


HELPERS = """
from gpuplan.simkit.jit import borrowing_helper, helper, kernel

@{kind}
def half(x):
    return x // 2

@kernel
def halvings(x):
    count = 0
    while x > 0:
        count += 1 + half(0)
        x = half(x)
    return count + half(1)
"""


@pytest.mark.parametrize("kind", ["helper", "borrowing_helper"])
def test_a_helper_is_compiled_once_whatever_the_literals_and_called_by_kernels_alone(load, kind):
    # At last the kernel of the cache has the helper in it
    for signatures in ([(numba.int64,)], []):
        halving = load(HELPERS.format(kind=kind))
        assert halving.halvings(8) == 4
        assert halving.half.signatures == signatures
        with pytest.raises(TypeError, match="half is a helper: only kernels can call it"):
            halving.half(8)


def test_a_helper_without_compilation_is_python(tmp_path):
    (tmp_path / "halving.py").write_text(HELPERS.format(kind="helper"))
    script = "from halving import half, halvings; print(half(8), halvings(8))"
    assert run(tmp_path, script, NUMBA_DISABLE_JIT="1") == "4 4\n"


def nowhere(folder, place="None"):
    """Write a locator class as numba meets it on a read-only system."""
    (folder / "nowhere.py").write_text(
        "import os\nfrom numba.core.caching import UserProvidedCacheLocator as Given\n"
        f"class Nowhere(Given):\n    from_function = classmethod(lambda cls, f, path: {place})\n"
    )


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users are of POSIX systems")
@pytest.mark.parametrize(
    "mode", [None, *(pytest.param(mode, marks=pytest.mark.slow) for mode in (0o700, 0o770, 0o707))]
)
def test_machine_code_goes_to_a_private_temporary_folder(tmp_path, mode):
    given = "Given.from_function.__func__(Given, f, path)"
    nowhere(tmp_path, f"{given} if os.environ.get('NUMBA_CACHE_DIR') else None")
    folder = tmp_path / "tmp" / f"gpuplan-kernels-{os.getuid()}"
    folder.parent.mkdir()
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
    script = """
    import logging
    logging.getLogger("gpuplan").addHandler(logging.StreamHandler(__import__("sys").stdout))
    from doubling import double
    print(double(21), type(double._cache).__name__)
    """
    place = {"NUMBA_CACHE_LOCATOR_CLASSES": "nowhere.Nowhere", "TMPDIR": str(folder.parent)}
    out = run(tmp_path, script, **place)
    is_ours = mode in (None, 0o700)
    assert out.endswith(f"42 {'FunctionCache' if is_ours else 'NullCache'}\n")
    assert out.count(f"compiled kernels are kept in {folder}") == (mode is None)
    assert bool(list(folder.rglob("*.nbc"))) == is_ours
    again = run(tmp_path, script, **place)
    assert again == f"42 {'FunctionCache' if is_ours else 'NullCache'}\n"  # "kept in" is said once
    if mode is None:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_a_directory_for_the_cache_the_kernel_still_works(tmp_path):
    nowhere(tmp_path)
    script = """
    from doubling import double
    print(double(21), type(double._cache).__name__)
    """
    place = {"NUMBA_CACHE_LOCATOR_CLASSES": "nowhere.Nowhere", "TMPDIR": str(tmp_path)}
    assert run(tmp_path, script, **place) == "42 NullCache\n"


@pytest.mark.kernels
def test_disabled_compilation_leaves_python(tmp_path):
    script = "from doubling import double; print(double(21), type(double).__name__)"
    assert run(tmp_path, script, NUMBA_DISABLE_JIT="1") == "42 function\n"


@pytest.mark.skipif(sys.platform == "win32", reason="limits are of POSIX systems")
def test_a_disk_without_room_for_the_machine_code_ends_no_run(tmp_path):
    import resource

    script = "from gpuplan.simkit.heap import new_heap; print(new_heap(3).shape)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000)),
    )
    assert (done.returncode, done.stdout) == (0, "(4, 2)\n"), done.stderr
    assert not list(tmp_path.rglob("*.nbc"))


def test_flags_are_the_same_where_each_has_the_same_value():
    plain, stated, other = Flags(), Flags(), Flags()
    stated.nrt, stated.release_gil = Flags.options["nrt"].default, False
    other.release_gil = True
    assert plain == stated and hash(plain) == hash(stated) == hash(other)
    assert plain != other and stated != other and other == other.copy()
    assert plain.values() == stated.values() != other.values()
    assert plain != "flags"
