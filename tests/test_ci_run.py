"""What CI runs installs a browser where it can, and says where it cannot."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"
NEEDED = ("bash", "dirname")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason="needs a Unix shell, as CI has"
)


@pytest.fixture
def run(tmp_path):
    """Run the script in a folder of its own, with these commands and no others."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci" / "run")
    for name in NEEDED:
        (programs / name).symlink_to(shutil.which(name))

    def run(**commands: str) -> tuple[list[str], str]:
        for name, body in {"make": "echo make $1", **commands}.items():
            file = programs / name.replace("_", "-")
            file.write_text(f"#!{shutil.which('bash')}\nBIN={programs}\n{body}\n")
            file.chmod(0o755)
        ran = subprocess.run(
            [programs / "bash", tmp_path / ".ci" / "run"],
            env=os.environ | {"PATH": str(programs)},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.splitlines(), ran.stderr

    return run


MADE = ["make test", "make test-slow", "make check"]
INSTALL = (
    "[ $1 = update ] || for p in chromium chromedriver; do echo > $BIN/$p; done\n"
    "[ $1 = update ] || exec {chmod} +x $BIN/chromium $BIN/chromedriver"
)


def test_what_is_there_is_not_installed_again(run):
    stop = "echo installed >&2; exit 1"
    assert run(chromium="", chromedriver="", apt_get=stop, id="echo 0") == (MADE, "")


def test_root_installs_what_is_missing(run):
    install = INSTALL.replace("{chmod}", shutil.which("chmod"))
    assert run(apt_get=install, id="echo 0") == (MADE, "")


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        ({"id": "echo 1000", "apt_get": ""}, "no root on Debian"),
        ({"id": "echo 0"}, "no root on Debian"),
        ({"id": "echo 0", "apt_get": "exit 100"}, "apt-get update failed"),
        ({"id": "echo 0", "apt_get": "[ $1 = update ]"}, "apt-get install failed"),
        ({"id": "echo 1000", "chromium": ""}, "no root on Debian"),
    ],
)
def test_elsewhere_it_says_that_browser_tests_are_skipped(run, commands, why):
    made, told = run(**commands)
    assert made == MADE
    assert told == (
        f"chromium and chromium-driver are not installed ({why}): the browser tests are skipped\n"
    )
