"""Keep one comment of gpuplan on a pull request (GitHub) or merge request (GitLab) up to date.

    python ci/gpuplan_comment.py FILE.md... [--name NAME] \\
        [--changes diff.json --report report.json --silent-below 1%]

The first run creates the comment, later ones edit it. The files follow each other in it; one that
is not there is left out. Two jobs that comment need two names. With --silent-below nothing is
created while no number that matters changed by more, no gate tripped and no study came or went; a
comment that is there then says so.

Copy this file to ci/ of your repository. It needs Python 3.11 and no packages. Variables: of
GitHub, GITHUB_TOKEN with `pull-requests: write`; of GitLab, GITLAB_TOKEN, a project access token
with the scope `api`. The services set all others.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

MOST = 60_000  # characters; GitHub takes 65,536
PAGE = 100


def service():
    """Return the address of the comments, the headers, how to edit one, and where its text is."""
    env = os.environ
    if env.get("GITHUB_ACTIONS") == "true":
        kind, number = env["GITHUB_REF"].split("/")[1:3]  # refs/pull/12/merge
        if kind != "pull":
            sys.exit("not a pull request: no comment")
        repository = f"{env['GITHUB_API_URL']}/repos/{env['GITHUB_REPOSITORY']}"
        headers = {
            "Authorization": f"Bearer {env['GITHUB_TOKEN']}",
            "Accept": "application/vnd.github+json",
        }
        return (
            f"{repository}/issues/{number}/comments",
            headers,
            lambda comment: ("PATCH", f"{repository}/issues/comments/{comment['id']}"),
        )
    project = f"{env['CI_API_V4_URL']}/projects/{env['CI_PROJECT_ID']}"
    notes = f"{project}/merge_requests/{env['CI_MERGE_REQUEST_IID']}/notes"
    headers = {"PRIVATE-TOKEN": env["GITLAB_TOKEN"]}
    return notes, headers, lambda note: ("PUT", f"{notes}/{note['id']}")


def call(method, url, headers, body=None):
    """Send one request and return the JSON of the answer."""
    data = None if body is None else json.dumps({"body": body}).encode()
    headers = headers | {"Content-Type": "application/json", "User-Agent": "gpuplan"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {url}: {error.code} {error.reason}; may the token write comments?")
    except urllib.error.URLError as error:
        sys.exit(f"{method} {url}: {error.reason}")


def mark_of(name):
    """Return the hidden first line by which later runs find the comment."""
    return f"<!-- {f'gpuplan {name}'.strip()} -->"


def existing(comments, headers, mark):
    """Return the comment of an earlier run; None where there is none."""
    page = 1
    while found := call("GET", f"{comments}?per_page={PAGE}&page={page}", headers):
        for comment in found:
            if (comment["body"] or "").startswith(mark):
                return comment
        if len(found) < PAGE:
            return None
        page += 1
    return None


def is_quiet(changes, report, share):
    """Return whether no change that matters is above a share, and every gate passed."""
    found = json.loads(changes.read_text(encoding="utf-8"))["results"]
    gates = found["gates"] + json.loads(report.read_text(encoding="utf-8"))["gates"]
    shares = [one["change_share"] for one in found["changes"] if one["about"]]
    return (
        not found["only"]
        and all(gate["state"] == "passed" for gate in gates)
        and all(one is not None and abs(one) <= share for one in shares)
    )


def text_of(files, mark):
    """Return the comment: the files that there are, as many as fit."""
    text = mark
    for path in files:
        if not path.exists():
            continue
        part = f"\n\n{path.read_text(encoding='utf-8').strip()}"
        if len(text) + len(part) > MOST:
            part = f"\n\n_{path.name} is too long for a comment; it is in the artifacts._"
        text += part
    return text


def main():
    """Create or edit the comment."""
    parser = argparse.ArgumentParser(description="Keep one comment up to date.")
    parser.add_argument("files", nargs="+", type=Path, help="Markdown, in this order")
    parser.add_argument("--name", default="", help="tells comments of several jobs apart")
    parser.add_argument("--changes", type=Path, help="JSON of gpuplan diff")
    parser.add_argument("--report", type=Path, help="JSON of gpuplan report")
    parser.add_argument("--silent-below", metavar="SHARE", help="such as 1%%")
    options = parser.parse_args()
    comments, headers, edited = service()
    mark = mark_of(options.name)
    text = text_of(options.files, mark)
    below, changes = options.silent_below, options.changes
    is_silent = (
        bool(below)
        and all(path is not None and path.exists() for path in (changes, options.report))
        and is_quiet(changes, options.report, float(below.removesuffix("%")) / 100)
    )
    comment = existing(comments, headers, mark)
    if is_silent:
        text = f"{mark}\n\nNothing that matters changed by more than {below}."
    if comment is not None:
        if comment["body"] != text:
            call(*edited(comment), headers, text)
        print("comment is up to date")
    elif is_silent:
        print(f"nothing changed by more than {below}: no comment")
    else:
        call("POST", comments, headers, text)
        print("comment created")


if __name__ == "__main__":
    main()
