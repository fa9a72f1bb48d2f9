"""Write rows of ``sacct --parsable2`` with times in UTC as ``sacct --json`` shows the same jobs."""

import json
import re
from datetime import UTC, datetime

NO_TIME = ("", "Unknown", "None")


def sacct_json(text):
    """Return the JSON document of a text with the columns of gpuplan's sacct command."""
    header, *lines = text.splitlines()
    names = header.split("|")
    jobs = []
    for line in lines:
        cells = line.split("|", len(names) - 1)
        jobs.append(_job(dict(zip(names, cells, strict=True))))
    return json.dumps({"jobs": jobs, "meta": {}})


def number(value):
    """Return a number as newer versions write it."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def _seconds(text):
    if text in NO_TIME:
        return 0
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _limit(text):
    if text == "UNLIMITED":
        return {"set": False, "infinite": True, "number": 0}
    if text == "Partition_Limit":
        return number(None)
    days, _, clock = text.rpartition("-")
    hours, minutes, _ = map(int, clock.split(":"))
    return number(int(days or 0) * 1440 + hours * 60 + minutes)


def _tres(text):
    entries = []
    for part in text.split(",") if text else ():
        key, count = part.split("=")
        kind, _, name = key.partition("/")
        whole = re.match(r"\d+", count)
        entries.append({"type": kind, "name": name, "id": 1, "count": int(whole[0])})
    return entries


def _job(row):
    job_id, _, task = row["JobID"].partition("_")
    array = {"job_id": int(job_id) if task else 0, "task_id": number(int(task) if task else None)}
    return {
        "comment": {"administrator": row.get("AdminComment", ""), "job": "", "system": ""},
        "job_id": int(job_id), "array": {**array, "task": ""},
        "het": {"job_id": 0, "job_offset": number(None)},
        "user": row["User"], "account": row["Account"], "partition": row["Partition"],
        "qos": row["QOS"], "association": {"user": row["User"], "account": row["Account"]},
        "state": {"current": [row["State"].split()[0]], "reason": row["Reason"]},
        "time": {
            "submission": _seconds(row["Submit"]), "eligible": _seconds(row["Eligible"]),
            "start": _seconds(row["Start"]), "end": _seconds(row["End"]),
            "elapsed": int(row["ElapsedRaw"] or 0), "limit": _limit(row["Timelimit"]),
        },
        "allocation_nodes": int(row["NNodes"] or 0),
        "tres": {"allocated": _tres(row["AllocTRES"]), "requested": _tres(row["ReqTRES"])},
        "priority": number(int(row["Priority"]) if row["Priority"] else None),
        "flags": row["Flags"].split(",") if row["Flags"] else [],
        "reservation": {"id": 0, "name": row["Reservation"]},
        "nodes": row["NodeList"], "submit_line": row["SubmitLine"],
    }  # fmt: skip
