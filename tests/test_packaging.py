"""The wheel holds what the repository holds, and works where nothing else is installed."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("analysis", "cli", "planner", "sample_traces", "simkit")
IMPORT = re.compile(r"^[ ]*(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="needs the repository, not only the tests"
)


def run(*command: object, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": "", "COVERAGE_PROCESS_START": ""}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_every_package_is_listed():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(config["tool"]["setuptools"]["packages"])
    present = {
        "gpuplan." + ".".join(init.parent.relative_to(ROOT).parts)
        for part in PARTS
        for init in (ROOT / part).rglob("__init__.py")
    }
    assert listed == present


def test_every_folder_with_code_is_a_package():
    bare = {
        file.parent
        for part in PARTS
        for file in (ROOT / part).rglob("*.py")
        if not (file.parent / "__init__.py").exists()
    }
    assert not bare


def test_layers_hold():
    """import-linter's contracts of pyproject.toml: cli, planner, then analysis and simkit."""
    pytest.importorskip("importlinter", reason="import-linter comes with the dev extra")
    from importlinter.cli import lint_imports

    here = Path.cwd()
    os.chdir(ROOT)
    try:
        assert lint_imports(no_cache=True) == 0
    finally:
        os.chdir(here)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel built from the sdist; returns its folder of programs.

    The dependencies are those of this environment, put on the path by a ``.pth`` file, so that the
    test needs no network; gpuplan itself can only come from the wheel (an editable install is
    found through a ``.pth`` file of its own, which such a path does not read).
    """
    folder = tmp_path_factory.mktemp("dist")
    programs = Path(sys.executable).parent
    (folder / "gpuplan-0.0.0.tar.gz").touch()  # of an earlier version
    run("make", "-o", ".venv/.installed-dev", "dist", f"BIN={programs}", f"DIST={folder}", cwd=ROOT)
    (wheel,) = folder.glob("gpuplan-*.whl")
    (sdist,) = folder.glob("gpuplan-*.tar.gz")
    sums = [f"{sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in (wheel, sdist)]
    assert sorted((folder / "SHA256SUMS").read_text().splitlines()) == sorted(sums)
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=False)
    programs = home / ("Scripts" if os.name == "nt" else "bin")
    python = programs / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel, cwd=home)
    packages = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=home).strip()
    )
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return programs


@pytest.mark.slow
def test_the_wheel_holds_the_samples_and_the_marks_of_typing(installed):
    where = run(
        installed / "python",
        "-c",
        "import gpuplan.sample_traces as s; print(s.__file__)",
        cwd=installed,
    )
    folder = Path(where.strip()).parent
    shipped = {path.name for path in (ROOT / "sample_traces").iterdir() if path.is_file()}
    assert shipped <= {path.name for path in folder.iterdir()}
    assert all((folder.parent / part / "py.typed").exists() for part in PARTS)
    metadata = next(folder.parent.parent.glob("gpuplan-*.dist-info/METADATA")).read_text()
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for dependency in config["project"]["dependencies"]:
        assert f"Requires-Dist: {dependency}" in metadata


@pytest.mark.slow  # as all that build a wheel
def test_the_wheel_holds_templates_and_schemas(installed):
    where = run(
        installed / "python", "-c", "import gpuplan.cli as c; print(c.__file__)", cwd=installed
    )
    for folder in ("schemas", "documents/templates"):
        shipped = {path.name for path in (ROOT / "cli" / folder).iterdir()}
        there = {path.name for path in (Path(where.strip()).parent / folder).iterdir()}
        assert shipped and shipped <= there


@pytest.mark.slow
def test_the_wheel_holds_the_data_that_stands_beside_code(installed):
    where = run(
        installed / "python", "-c", "import gpuplan.analysis as a; print(a.__file__)", cwd=installed
    )
    files = [*(ROOT / "analysis").rglob("*.toml"), *(ROOT / "analysis").rglob("*.csv")]
    names = [path.relative_to(ROOT / "analysis") for path in files]
    assert names and all((Path(where.strip()).parent / name).exists() for name in names)


def test_every_package_that_the_code_imports_is_a_dependency():
    """The wheel is tested with this environment's packages, so a missing one would not show."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = {re.split(r"[<>=!~ ]", name)[0] for name in config["project"]["dependencies"]}
    imported = {
        name
        for part in PARTS
        for file in (ROOT / part).rglob("*.py")
        for names in IMPORT.findall(file.read_text(encoding="utf-8"))
        for name in names
        if name
    }
    assert {"numpy", "typer"} <= imported
    declared |= {"yaml"} if "pyyaml" in declared else set()  # called otherwise than its package
    assert imported - set(sys.stdlib_module_names) - {"gpuplan"} <= declared


@pytest.mark.slow
def test_the_wheel_runs_the_demo(installed, tmp_path):
    where = run(
        installed / "python",
        "-c",
        "import gpuplan.cli as c; print(c.__file__)",
        cwd=tmp_path,
    )
    assert str(installed.parent) in where  # not this repository
    shown = run(installed / "gpuplan", "demo", "-o", tmp_path / "out", cwd=tmp_path)
    assert "gpuplan pareto" in shown and "gpuplan sweep" in shown
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"seren.parquet", "workload.svg", "frontier.svg", "sweep.svg"} <= names


def test_tested_versions_are_kept_for_every_package_and_are_allowed():
    """constraints.txt, which the Makefile gives to each installation; ``make lock`` renews it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for extra in extras.values() for one in extra)]
    kept = dict(re.findall(r"^([\w.-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.M))
    for requirement in wanted:
        name, bounds = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(.*)", requirement).groups()
        if name == "gpuplan":
            continue
        assert bounds.startswith(">="), f"{name} has no lower bound"
        version = parts_of(kept[name])
        for sign, bound in re.findall(r"(>=|<)([\d.]+)", bounds):
            assert (version >= parts_of(bound)) is (sign == ">="), requirement
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--constraint constraints.txt" in makefile and "--resolution lowest-direct" in makefile


def parts_of(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
