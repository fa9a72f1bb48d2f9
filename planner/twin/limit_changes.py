"""Limits of GPUs: of a user, an account or a QOS, where the site has such a limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.job_table.notation import UNLIMITED, WHOLE
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.planner.twin.site_changes import SiteChange, combined, names_in

USUAL_QOS = "normal"
FORMS = "user=32, user:NAME=32, account:NAME=72, qos:NAME=96, or qos:NAME/user=32"


def limit(text: str) -> SiteChange:
    """Return the change ``WHO=N``: at most so many GPUs at a time, or ``none``.

    ``user`` is every user, under the QOS whose limit holds for most jobs; ``user:NAME`` is one
    user, ``account:NAME`` an account, ``qos:NAME`` all jobs of a QOS and ``qos:NAME/user`` every
    user under it. Several are joined by commas.

    Raises:
        UsageError: it is not written so.
    """
    parts = [_read(part.strip(), text) for part in text.split(",")]
    name = f"limit {text}"

    def settle(document: SiteDocument, log: SiteLog) -> SiteChange:
        made = [_settled(who, gpus, document, log) for who, gpus in parts]
        return replace(combined(made), name=name)

    return SiteChange(name, settle=settle)


def _read(part: str, text: str) -> tuple[str, str]:
    who, equals, gpus = (word.strip() for word in part.rpartition("="))
    is_limit = WHOLE.fullmatch(gpus) or gpus.lower() in UNLIMITED[:-1]
    kind, colon, name = who.partition(":")
    if not equals or not is_limit or kind not in ("user", "account", "qos"):
        raise UsageError(f"--limit must be like {FORMS} (GPUs, or none), got {text!r}")
    if kind != "user" and not name.removesuffix("/user"):
        raise UsageError(f"--limit {text}: say which {kind}, for example {kind}:NAME=72")
    if colon and not name:
        raise UsageError(f"--limit {text}: the name after {kind}: is empty")
    return who, gpus if WHOLE.fullmatch(gpus) else "unlimited"


def _settled(who: str, gpus: str, document: SiteDocument, log: SiteLog) -> SiteChange:
    kind, _, name = who.partition(":")
    if kind == "user":
        return _of_user(name, gpus, document, log) if name else _of_users(gpus, document, log)
    name, slash, _ = name.partition("/")
    names = sorted(names_in(document, log, kind))
    find_named(name, dict.fromkeys(names), "--limit", "QOS" if kind == "qos" else kind)
    key = "MaxTRESPU" if slash else "GrpTRES"
    return _put((kind, name, key), gpus, "" if slash or kind != "qos" else _of_all(name, document))


def _of_all(name: str, document: SiteDocument) -> str:
    """Return that a limit of a QOS is of all its users, where it limits only each of them today."""
    qos = document.settings.qos.get(name)
    if qos is None or qos.GrpTRES.value is not None or qos.MaxTRESPU.value is None:
        return ""
    return (
        f"--limit qos:{name} is for all users of the QOS together, who have no such limit today; "
        f"qos:{name}/user=N changes the {qos.MaxTRESPU.value} GPUs of each user"
    )


def _put(keys: tuple[str, ...], gpus: str, note: str = "") -> SiteChange:
    """Return the change of a limit."""
    full_keys = (*keys, "gpu")

    def change(of: SiteDocument) -> None:
        of.put(gpus, *full_keys)

    return SiteChange(".".join(full_keys), change, keys=(full_keys,), notes=(note,) if note else ())


def _of_users(gpus: str, document: SiteDocument, log: SiteLog) -> SiteChange:
    """Return the limit of every user, at the place where the site has it."""
    settings = document.settings
    having = [name for name, qos in settings.qos.items() if qos.MaxTRESPU.value is not None]
    users = [
        ("account", account, "user", user)
        for account, entry in settings.account.items()
        for user, limits in entry.user.items()
        if limits.GrpTRES.value is not None
    ]
    if not having and users:
        changes = [_put((*keys, "GrpTRES"), gpus) for keys in users]
        note = f"--limit user: set for the {len(users)} users whose association has a GPU limit"
        return replace(combined(changes), notes=(note,))
    jobs: Counter[str] = Counter()
    rows = log.jobs.group_by("partition", "qos").len().sort("partition", "qos").rows()
    for partition, qos, count in rows:
        entry = settings.partition.get(partition or "")
        first = entry.QOS if entry is not None else ""
        jobs[first if first in having else qos or USUAL_QOS] += count
    within = [name for name in jobs if name in having] or having or list(jobs)
    name = max(within, key=lambda qos: jobs[qos]) if within else USUAL_QOS
    note = ""
    if other_qos := [qos for qos in having if qos != name]:
        other = ", ".join(f"{qos} {settings.qos[qos].MaxTRESPU.value}" for qos in other_qos)
        note = (
            f"--limit user: set in QOS {name}, under which most jobs run; others stay ({other} "
            f"GPUs a user): qos:{other_qos[0]}/user=N sets one"
        )
    elif not having:
        note = f"--limit user: no limit of GPUs per user is known, so QOS {name} gets one"
    return _put(("qos", name, "MaxTRESPU"), gpus, note)


def _of_user(name: str, gpus: str, document: SiteDocument, log: SiteLog) -> SiteChange:
    """Return the limit of one user, in each of the accounts that the user has."""
    pairs = {
        (account, user)
        for account, entry in document.settings.account.items()
        for user in entry.user
    } | set(log.jobs.select("account", "user").drop_nulls().unique().rows())
    users = dict.fromkeys(sorted({user for _, user in pairs}))
    find_named(name, users, "--limit", "user")
    accounts = sorted(account for account, user in pairs if user == name)
    return combined([_put(("account", a, "user", name, "GrpTRES"), gpus) for a in accounts])
