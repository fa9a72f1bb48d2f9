"""A site's configuration as a commit or branch of a git repository has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.quota.kueue_site import QuotaDocument, read_quota_site, site_of_objects
from gpuplan.analysis.quota.objects import SUFFIXES, yaml_objects

LONGEST_S = 60
MOST_FILES = 5_000


def site_before(path: Path, before: str, option: str = "--before") -> QuotaDocument:
    """Return the configuration before a change: of another path, or of a commit of this one.

    Args:
        path: the file or folder of the configuration.
        before: a path, else a branch, tag or commit of the repository that ``path`` is in.
        option: what named it.

    Raises:
        InputError: the configuration cannot be used.
        UsageError: it is no path, and there is no such commit.
    """
    if Path(before).exists():
        return read_quota_site(Path(before))
    return site_at(path, before, option)


def site_at(path: Path, commit: str, option: str = "--before") -> QuotaDocument:
    """Return the configuration at a commit; the working tree stays as it is. Raises as above."""
    if commit.startswith("-"):
        raise UsageError(f"{option} {commit!r}: must be a path, a branch or a commit")
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        raise InputError(path, "no such file or folder")
    _git(folder, option, commit, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    inside = "." if path.is_dir() else path.name
    listed = _git(folder, option, commit, "ls-tree", "-r", "--name-only", "-z", commit, inside)
    names = [name for name in listed.decode("utf-8", "replace").split("\0") if name]
    names = [name for name in names if path.is_file() or _is_part(name)]
    shown = Path(f"{commit}:{path}")
    if len(names) > MOST_FILES:
        raise InputError(
            shown,
            f"has {len(names):,} files of YAML or JSON at that commit",
            expected=f"at most {MOST_FILES:,}",
            hint="name the folder that holds the queues",
        )
    if not names:
        raise InputError(shown, "has no file of YAML or JSON at that commit")
    objects = [
        thing
        for name in sorted(names)
        for thing in yaml_objects(
            shown / name if path.is_dir() else shown,
            _git(folder, option, commit, "show", f"{commit}:./{name}"),
        )
    ]
    return site_of_objects(shown, objects)


def _is_part(name: str) -> bool:
    parts = Path(name).parts
    return Path(name).suffix.lower() in SUFFIXES and not any(part[0] == "." for part in parts)


def _git(folder: Path, option: str, commit: str, *words: str) -> bytes:
    """Return what git prints. Raises `UsageError` with the next step."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, timeout=LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{option} {commit}: is no path, and git cannot be run ({error})\n"
            f"  next: {option} FOLDER with the configuration before"
        ) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise UsageError(
            f"{option} {commit}: is no path, and no commit of the repository of {folder}"
            f"{f' ({said})' if said else ''}\n"
            f"  next: git fetch origin {commit.removeprefix('origin/')}, or {option} FOLDER"
        )
    return done.stdout
