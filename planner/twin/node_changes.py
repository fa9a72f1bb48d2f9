"""More or fewer nodes, and nodes kept for a partition, an account or a QOS.

A name is a GPU type, a partition, a node, a host list or the letters that nodes begin with. Where a
partition and a GPU type share a name, the partition counts; ``type:``, ``partition:`` and ``node:``
before it say which. ``PARTITION/TYPE`` are the nodes of a type in one partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.job_table.notation import MOST_HOSTS, WHOLE, hosts_of, split_hosts
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.planner.twin.settings import site_of
from gpuplan.planner.twin.site_changes import SiteChange, names_in
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.site import SiteCluster, SiteNode, SitePartition

KINDS = ("partition", "type", "node")
DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The nodes that a name stands for.

    Attributes:
        kind: what the name is of `KINDS`; empty where none was given.
        node_kind: a node of them, without its name.
        nodes: their names, in the order of the site.
        partitions: names of those that new nodes like them belong to.
    """

    kind: str
    node_kind: SiteNode
    nodes: tuple[str, ...]
    partitions: tuple[str, ...]


def add_nodes(text: str) -> SiteChange:
    """Return the change ``[NAME=]N``: N more nodes like those that the name stands for.

    Several of them are joined by commas.

    Raises:
        UsageError: it is not written so.
    """
    parts = _counts("--add-nodes", text)

    def add(site: SiteCluster) -> SiteCluster:
        for name, count in parts:
            site = _with_nodes(site, chosen_nodes(site, name, "--add-nodes"), count, text)
        return site

    def settle(document: SiteDocument, log: SiteLog) -> SiteChange:
        site = site_of(document)
        notes = tuple(
            f"--add-nodes: {name} is read as the partition {name}; type:{name}={count} also puts "
            f"the nodes into {listed(partitions)}"
            for name, count in parts
            if (partitions := _other_partitions(site, name))
        )
        return SiteChange(f"add-nodes {text}", site=add, notes=notes)

    return SiteChange(f"add-nodes {text}", site=add, settle=settle)


def remove_nodes(text: str) -> SiteChange:
    """Return the change ``[NAME=]N``: N nodes less of those that the name stands for.

    Without a number, the nodes of a host list go. Several of them are joined by commas.

    Raises:
        UsageError: it is not written so.
    """
    parts = _counts("--remove-nodes", text, without_count=True)

    def remove(site: SiteCluster) -> SiteCluster:
        for name, count in parts:
            choice = chosen_nodes(site, name, "--remove-nodes")
            if not count and choice.kind != "node":
                raise UsageError(
                    f"--remove-nodes {text}: say how many, for example {name}=1, or name nodes"
                )
            same = choice.nodes
            if count > len(same):
                raise UsageError(f"--remove-nodes {text}: there are only {len(same)} such nodes")
            site = _without_nodes(site, set(same[-count:] if count else same), text)
        return site

    return SiteChange(f"remove-nodes {text}", site=remove)


def reserve(text: str) -> SiteChange:
    """Return the change ``NAME=N@WHO``: N nodes that only WHO may use.

    WHO is a partition, ``account:NAME`` or ``qos:NAME``. The jobs of an account or a QOS may still
    use all nodes of their partition, as if it had a second one for them.

    Raises:
        UsageError: it is not written so.
    """
    nodes, at, who = (part.strip() for part in text.partition("@"))
    if not at or not who:
        raise UsageError(
            f"--reserve must be like a100=2@account:climate, nodes and who they are kept for, got "
            f"{text!r}"
        )
    ((name, count), *more_counts) = _counts("--reserve", nodes, without_count=True)
    if more_counts:
        raise UsageError(f"--reserve {text}: give one kind of nodes at a time")

    def settle(document: SiteDocument, log: SiteLog) -> SiteChange:
        site = site_of(document)
        choice = chosen_nodes(site, name, "--reserve")
        if (not count and choice.kind != "node") or count > len(choice.nodes):
            raise UsageError(
                f"--reserve {text}: say how many of the {len(choice.nodes)} such nodes, for "
                f"example {name}=1@{who}"
            )
        kept = set(choice.nodes[-count:] if count else choice.nodes)
        kind, word = _kept_for(document, log, text, who)
        change = f"reserve {text}"
        if kind == "partition":
            return SiteChange(change, site=lambda of: _kept_for_partition(of, kept, word, text))
        parts = tuple(p.name for p in site.partitions if kept & set(p.nodes))
        label = f"{kind} {word}"
        return SiteChange(
            change,
            site=lambda of: _kept_for_jobs(of, kept, parts, label, text),
            jobs=lambda jobs: _moved_jobs(jobs, kind, word, parts, label),
        )

    return SiteChange(f"reserve {text}", settle=settle)


def chosen_nodes(site: SiteCluster, text: str, option: str) -> NodeChoice:
    """Return the nodes that a name stands for; without one, those of the most common kind.

    Raises:
        UsageError: nothing has that name, or it stands for nodes of several sizes or types.
    """
    if not text:
        return _most_common_kind(site, "", option, "", tuple(node.name for node in site.nodes))
    partition, slash, kind_of_gpu = (part.strip() for part in text.partition("/"))
    if slash and _partition(site, partition):
        typed = set(_nodes_of_type(site, kind_of_gpu))
        both = [node for node in _nodes_of_partition(site, partition) if node in typed]
        if not both:
            raise UsageError(f"{option}: partition {partition} has no {kind_of_gpu} nodes")
        kind_of = {node.name: replace(node, name="") for node in site.nodes}
        usual = Counter(kind_of[node] for node in both).most_common(1)[0][0]
        same = [node for node in both if kind_of[node] == usual]
        return _most_common_kind(site, partition, option, "partition", same)
    prefix, colon, rest = text.partition(":")
    kinds = (prefix.strip().lower(),) if colon else KINDS
    name = rest.strip() if colon else text
    finders: dict[str, Callable[[SiteCluster, str], tuple[str, ...]]] = {
        "partition": _nodes_of_partition, "type": _nodes_of_type, "node": _nodes_of_list,
    }  # fmt: skip
    if colon and prefix.strip().lower() not in finders:
        raise UsageError(f"{option} {text}: a name may have {', '.join(KINDS)} and : before it")
    matching = [(kind, nodes) for kind in kinds if (nodes := finders[kind](site, name))]
    if not matching:
        raise UsageError(f"{option}: {_unknown(site, name)}")
    kind, nodes = matching[0]
    if kind == "partition" and len(matching) > 1:
        other, of_other = matching[1]
        if not set(nodes) & set(of_other):
            raise UsageError(
                f"{option}: {name} is a partition and a {'GPU type' if other == 'type' else other} "
                f"of other nodes; write partition:{name} or {other}:{name}"
            )
    return _most_common_kind(site, name, option, kind, nodes)


def _most_common_kind(
    site: SiteCluster, name: str, option: str, kind: str, nodes: Sequence[str]
) -> NodeChoice:
    """Return those of the most common kind among nodes; only weights may differ without a word."""
    of = {node.name: replace(node, name="") for node in site.nodes}
    counts = Counter(of[node] for node in nodes)
    if name and len({(node_kind.gpu_type, node_kind.gpus) for node_kind in counts}) > 1:
        first = {
            node_kind: next(node for node in nodes if of[node] == node_kind) for node_kind in counts
        }
        what = ", ".join(
            f"{count} of {node_kind.gpus} {node_kind.gpu_type} (such as {first[node_kind]})"
            for node_kind, count in counts.items()
        )
        node_kinds = list(counts)
        is_typed = kind == "partition" and len(
            {node_kind.gpu_type for node_kind in node_kinds}
        ) == len(node_kinds)
        example = f"{name}/{node_kinds[0].gpu_type}" if is_typed else first[node_kinds[0]]
        raise UsageError(
            f"{option}: {name} has nodes of several kinds: {what}\n"
            f"  next: say which, for example {example}=1"
        )
    node_kind = max(counts, key=lambda node: counts[node])
    same_nodes = tuple(node for node in nodes if of[node] == node_kind)
    if kind == "partition":
        within: tuple[str, ...] = (_partition(site, name),)
    elif kind == "node":  # like the first: in its partitions
        within = tuple(p.name for p in site.partitions if same_nodes[0] in p.nodes)
    else:
        within = tuple(p.name for p in site.partitions if any(of[n] == node_kind for n in p.nodes))
    if kind == "" and within:  # in the order of the first of its partitions, as listed there
        first_part = site.partition(within[0])
        same_nodes = tuple(node for node in first_part.nodes if of[node] == node_kind)
    return NodeChoice(kind, node_kind, same_nodes, within)


def _partition(site: SiteCluster, name: str) -> str:
    """Return the partition of a name, whose letters may be of another case; empty for none."""
    names = {p.name.lower(): p.name for p in site.partitions}
    exact = {p.name for p in site.partitions}
    return name if name in exact else names.get(name.lower(), "")


def _nodes_of_partition(site: SiteCluster, name: str) -> tuple[str, ...]:
    partition = _partition(site, name)
    return next((p.nodes for p in site.partitions if p.name == partition), ())


def _nodes_of_type(site: SiteCluster, name: str) -> tuple[str, ...]:
    types = {node.gpu_type for node in site.nodes}
    wanted = {kind for kind in types if kind.lower() == name.lower()} or {
        kind for kind in types if same_gpu(kind, name)
    }
    return tuple(node.name for node in site.nodes if node.gpu_type in wanted)


def _nodes_of_list(site: SiteCluster, name: str) -> tuple[str, ...]:
    """Return the nodes of a host list, or those whose names are the text and a number."""
    names = {node.name for node in site.nodes}
    hosts = hosts_of(name)
    if hosts and set(hosts) <= names:
        return tuple(hosts)
    return tuple(n.name for n in site.nodes if n.name.rstrip(DIGITS) == name != n.name)


def _unknown(site: SiteCluster, name: str) -> str:
    types = sorted({node.gpu_type for node in site.nodes})
    partitions = [p.name for p in site.partitions]
    groups = sorted({node.name.rstrip(DIGITS) for node in site.nodes})
    near = perhaps(name, [*types, *partitions, *groups])
    return (
        f"no GPU type, partition or node is named {name}{near}; there are GPU types "
        f"{listed(types)}; partitions {listed(partitions)}; nodes {listed(groups)} with a number"
    )


def _other_partitions(site: SiteCluster, name: str) -> list[str]:
    """Return the other partitions of the nodes of a type that has the name of a partition."""
    partition = _partition(site, name)
    nodes = set(_nodes_of_type(site, name)) if partition else set()
    return [p.name for p in site.partitions if p.name != partition and nodes & set(p.nodes)]


def _counts(option: str, text: str, without_count: bool = False) -> list[tuple[str, int]]:
    """Return names with numbers; 0 where a host list needs none."""
    parts = []
    for part in split_hosts(text) or [text]:
        name, _, number = part.rpartition("=")
        if WHOLE.fullmatch(number.strip()) and 1 <= int(number) <= MOST_HOSTS:
            parts.append((name.strip(), int(number)))
        elif without_count and number.strip() and not name and not WHOLE.fullmatch(number.strip()):
            parts.append((number.strip(), 0))
        else:
            raise UsageError(
                f"{option} must be N or NAME=N with N from 1 to {MOST_HOSTS:,} and a GPU type, "
                f"partition or node as name, got {text!r}"
            )
    return parts


def _with_nodes(site: SiteCluster, choice: NodeChoice, count: int, text: str) -> SiteCluster:
    if len(site.nodes) + count > MOST_HOSTS:
        raise UsageError(f"--add-nodes {text}: a site may have {MOST_HOSTS:,} nodes at most")
    used_names = {node.name for node in site.nodes}
    names = [
        f"added{i}" for i in range(1, len(used_names) + count + 1) if f"added{i}" not in used_names
    ]
    new = tuple(replace(choice.node_kind, name=name) for name in names[:count])
    parts = tuple(
        replace(p, nodes=(*p.nodes, *(node.name for node in new)))
        if p.name in choice.partitions
        else p
        for p in site.partitions
    )
    return replace(site, nodes=site.nodes + new, partitions=parts)


def _without_nodes(site: SiteCluster, gone: set[str], text: str) -> SiteCluster:
    if len(gone) >= len(site.nodes):
        raise UsageError(f"--remove-nodes {text}: the site would have no node")
    if empty := next((p.name for p in site.partitions if set(p.nodes) <= gone), None):
        raise UsageError(f"--remove-nodes {text}: partition {empty} would have no node")
    return replace(
        site,
        nodes=tuple(node for node in site.nodes if node.name not in gone),
        partitions=tuple(_left(part, gone) for part in site.partitions),
        events=tuple(e for e in site.events if e.node not in gone),
    )


def _kept_for(document: SiteDocument, log: SiteLog, text: str, who: str) -> tuple[str, str]:
    """Return whom nodes are kept for: the kind and the name."""
    names = {"partition": set(document.tables.get("partition", {}))}
    names |= {kind: names_in(document, log, kind) for kind in ("account", "qos")}
    kind, colon, word = (part.strip() for part in who.partition(":"))
    kinds = [kind] if colon else list(names)
    word = word if colon else who
    having = [kind for kind in kinds if word in names.get(kind, ())]
    if len(having) == 1:
        return having[0], word
    if having:
        raise UsageError(
            f"--reserve {text}: {word} is a name of several things; write "
            + " or ".join(f"{kind}:{word}" for kind in having)
        )
    said = "; ".join(f"{kind}: {listed(sorted(words)) or 'none'}" for kind, words in names.items())
    every = [word for words in names.values() for word in words]
    raise UsageError(
        f"--reserve {text}: no partition, account or QOS is named {word}{perhaps(word, every)}; "
        f"there are {said}"
    )


def _kept_for_partition(site: SiteCluster, kept: set[str], name: str, text: str) -> SiteCluster:
    parts = []
    for part in site.partitions:
        if part.name == name:
            parts.append(replace(part, nodes=(*part.nodes, *sorted(kept - set(part.nodes)))))
        else:
            parts.append(_left(part, kept))
    _check_not_empty(parts, text)
    return replace(site, partitions=tuple(parts))


def _kept_for_jobs(
    site: SiteCluster, kept: set[str], names: Sequence[str], label: str, text: str
) -> SiteCluster:
    left = [_left(part, kept) for part in site.partitions]
    _check_not_empty(left, text)
    second = [
        replace(part, name=_second(part.name, label))
        for part in site.partitions
        if part.name in names
    ]
    return replace(site, partitions=(*left, *second))


def _left(part: SitePartition, gone: set[str]) -> SitePartition:
    return replace(part, nodes=tuple(node for node in part.nodes if node not in gone))


def _check_not_empty(parts: Sequence[SitePartition], text: str) -> None:
    if empty := next((part.name for part in parts if not part.nodes), None):
        raise UsageError(f"--reserve {text}: partition {empty} would have no node for others")


def _moved_jobs(jobs: SiteJobs, kind: str, word: str, names: Sequence[str], label: str) -> SiteJobs:
    codes = getattr(jobs, kind)
    words = np.array({"account": jobs.accounts, "qos": jobs.qoses}[kind], object)
    partitions = (*jobs.partitions, *(_second(name, label) for name in names))
    partition = jobs.partition.copy()
    for name in names:
        if name in jobs.partitions:
            those = (words[codes] == word) & (partition == jobs.partitions.index(name))
            partition[those] = partitions.index(_second(name, label))
    return jobs.changed(partition=partition, partitions=partitions)


def _second(partition: str, label: str) -> str:
    return f"{partition} for {label}"
