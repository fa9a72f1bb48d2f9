"""Scripts of a shell that call ``gpuplan``, with each call answered in this process.

A start of the program costs more than most of what it then does. A stand-in that comes first in
PATH hands its words, folder, environment and open files to this process, and exits as told.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOOK_AGAIN_S = 0.02
STAND_IN = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(8, "big")], [1, 2])
    server.sendall(call)
    sys.exit(int(server.recv(8)))
"""


def run_script(
    script: str, folder: Path, env: dict[str, str], *options: str, together: bool = False
) -> tuple[int, str, str]:
    """Run a script; return its exit code, what it says, and its errors.

    Args:
        script: commands of bash.
        folder: where they run.
        env: their variables, with PATH.
        options: of bash.
        together: errors stand where they come in what it says.
    """
    with (
        tempfile.TemporaryDirectory(prefix="gpuplan-calls-") as place,
        socket.socket(socket.AF_UNIX) as server,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        address = f"{place}/calls"
        server.bind(address)
        server.listen()
        server.settimeout(LOOK_AGAIN_S)
        program = Path(place, "gpuplan")
        program.write_text(STAND_IN.format(python=sys.executable, address=address))
        program.chmod(0o755)
        path = f"{place}{os.pathsep}{env['PATH']}"
        with subprocess.Popen(
            ["bash", *options, "-c", script],
            cwd=folder,
            env={**env, "PATH": path},
            stdout=out,
            stderr=subprocess.STDOUT if together else err,
        ) as shell:
            while shell.poll() is None:
                with contextlib.suppress(TimeoutError):
                    _answer(server.accept()[0], place)
        out.seek(0)
        err.seek(0)
        return shell.returncode, out.read().decode(), err.read().decode()


def _answer(caller: socket.socket, place: str) -> None:
    """Run one command for a stand-in and tell it the exit code."""
    from gpuplan.cli.app.main import main

    with caller:
        caller.settimeout(None)
        size, files, _, _ = socket.recv_fds(caller, 8, 2)
        rest = caller.makefile("rb").read(int.from_bytes(size, "big"))
        words, folder, env = json.loads(rest)
        env["PATH"] = env["PATH"].removeprefix(f"{place}{os.pathsep}")
        with contextlib.chdir(folder), _variables(env), _written_to(*files):
            code = main(words)
        caller.sendall(str(code).encode())


@contextlib.contextmanager
def _variables(env: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _written_to(out: int, err: int) -> Iterator[None]:
    with (
        io.TextIOWrapper(open(out, "wb"), encoding="utf-8") as stdout,
        io.TextIOWrapper(open(err, "wb"), encoding="utf-8", write_through=True) as stderr,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        yield
