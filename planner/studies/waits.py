"""Why jobs wait, who waits, and whether the cluster is too small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.characterize.clock import shown_zone
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.analysis.kubernetes.nodes import NodeGpus, read_node_gpus
from gpuplan.analysis.price_formats.instances import instance_models
from gpuplan.analysis.quota.kueue_site import QuotaDocument, site_or_none
from gpuplan.analysis.quota.objects import site_objects
from gpuplan.analysis.quota.workloads import is_kueue_dump, read_kueue_log
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waits.pools import NODES, StatedCluster, kind_of, partition_kinds, pools_of
from gpuplan.analysis.waits.results import GroupWait, QuotaFit, WaitBin, WaitingNow, WaitSummary
from gpuplan.analysis.waits.spells import NEEDED, SITE, Spells, first_waits
from gpuplan.analysis.waits.summary import REASONS, LimitOf, WaitAnalysis, unknown_limit
from gpuplan.planner.quota_twin.levels import FIFO
from gpuplan.planner.quota_twin.waiting import QUOTAS_OF_DUMP, cluster_of_quotas, waiting_now
from gpuplan.planner.requests.site_request import check_kind, read_quota_settings
from gpuplan.planner.requests.waits import WaitsRequest
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.twin.settings import site_of
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.twin.site import SiteCluster, SiteQos

COLUMNS = (*NEEDED, "user", "group")
REAL_COLUMNS = ("job_id",)
OVER = 1e-6
PODS = "kube"
WORKLOAD, POD = "workload", "pod"
NODES_OF_DUMP = "nodes of the dump"
VANISHED = (
    "pods vanish hours to days after they end, and the GPUs that they held look free here: too few "
    "free GPUs may have been the reason more often\n  next: kube-metrics has the pods of the past"
)
LIMITS = {
    "QOSMaxGRESPerUser": "user_gpus",
    "QOSGrpGRES": "grp_gpus",
    "QOSMaxGRESPerJob": "job_gpus",
}
"""Slurm's reason -> the limit of a QOS, in GPUs, that it names."""
ACCOUNT_GPUS = "AssocGrpGRES"


@dataclass(frozen=True, slots=True)
class WaitsResults:
    """Why jobs wait, who waits, and whether the cluster is too small.

    Attributes:
        summary: of all jobs.
        groups: by account, partition, QOS, GPU type and size, where the log has them.
        timeline: hours waited over time.
        waiting: workloads or pods that wait at the end of a log of Kubernetes, by reason, most
            GPUs first.
        waits_as: what they are called.
        zone: of local times.
        quotas: how well the quotas of ``twin`` explain the waits, where it is of Kueue.
    """

    summary: Inlined[WaitSummary]
    groups: tuple[GroupWait, ...]
    timeline: tuple[WaitBin, ...]
    waiting: tuple[WaitingNow, ...] = ()
    waits_as: Hidden[str] = WORKLOAD
    zone: Hidden[str] = "UTC"
    quotas: QuotaFit | UnsetType = UNSET


def waits(request: WaitsRequest) -> Answer[WaitsRequest, WaitsResults]:
    """Return why the jobs of a log wait.

    Raises:
        InputError: a file cannot be used, or no job with GPUs has a recorded wait.
        UsageError: a predicate or a cluster that cannot be used.
    """
    request.check()
    columns = (*COLUMNS, *(REAL_COLUMNS if request.real else ()))
    jobs = request.selection()
    trace = read_trace(request.trace, jobs, columns=columns, optional=SITE)
    if request.twin is not None:
        check_kind(request.trace, trace.provenance.source_format, request.twin)
    is_of_pods = trace.log is not None and trace.log.source_format == PODS
    is_dump = not is_of_pods and is_kueue_dump(request.trace)
    dump = read_kueue_log(request.trace) if is_dump else None
    quotas = None if dump is None else dump.site
    nodes = None
    if is_of_pods and request.trace.is_file():
        nodes = read_node_gpus(request.trace, instance_models())
    waiting = () if dump is None else waiting_now(dump)
    if dump is None and trace.log is not None and request.trace.is_file():
        from gpuplan.analysis.waits.waiting_pods import waiting_pods  # it loads formats of logs

        waiting = waiting_pods(request.trace, trace.log.source_format)
    analysis = wait_analysis(trace, request.trace, request, jobs, quotas, nodes)
    if analysis is None:
        raise InputError(
            request.trace, "records no wait of a job with GPUs", expected="submissions and starts"
        )
    return Answer(
        request=request,
        results=WaitsResults(
            analysis.summary(),
            analysis.groups(),
            analysis.timeline(),
            waiting,
            WORKLOAD if dump is not None else POD,
            shown_zone(trace.provenance.time_zone),
            _quota_fit(request),
        ),
        inputs=(trace_input(trace),),
        warnings=(
            *trace.notes,
            *cluster_warnings(analysis),
            *([VANISHED] if trace.provenance.source_format == PODS else []),
        ),
        notes=tuple(_notes(analysis, request, trace)),
    )


def _quota_fit(request: WaitsRequest) -> QuotaFit | UnsetType:
    """Return what calibrate found of the quotas of a site; unset without its score."""
    if request.twin is None or not request.is_of_kueue:
        return UNSET
    calibration = read_quota_settings(request.twin)[1]
    if calibration.within is None:
        return UNSET
    return QuotaFit(calibration.within, calibration.explains_waits and calibration.level != FIFO)


def quotas_of_dump(path: Path) -> QuotaDocument | None:
    """Return the quotas in a dump of Kueue; None for another file, and for quotas of no use."""
    if not is_kueue_dump(path):
        return None
    try:
        return site_or_none(path, site_objects(path))
    except InputError:
        return None


def wait_analysis(
    trace: Trace,
    path: Path,
    request: WaitsRequest | None = None,
    jobs: Selection | None = None,
    quotas: QuotaDocument | None = None,
    nodes: NodeGpus | None = None,
) -> WaitAnalysis | None:
    """Return the waits of a trace; None where no job with GPUs has a recorded wait.

    Args:
        trace: the jobs to tell of, with `COLUMNS` and what of `SITE` the log has.
        path: where it was read from.
        request: what is stated of the cluster; None for nothing.
        jobs: how the trace was selected; None for all of it.
        quotas: of the dump of Kueue that the trace was read from, which count where the request
            states nothing.
        nodes: of the dump of pods that the trace was read from, which count in the same way.
    """
    everything = whole_log(trace, path, jobs)
    types = partition_kinds(everything)
    begin_us = None if trace.period is None else trace.period[0]
    read = [name for name in (*COLUMNS, *SITE, *REAL_COLUMNS) if name in trace.jobs.columns]
    waits = first_waits(trace.jobs.select(read), types, begin_us)
    if not waits.submit.size:
        return None
    is_of_kueue = request is not None and request.is_of_kueue
    site = None if request is None or is_of_kueue else request.site()
    cluster: StatedCluster | None = None
    limit_of: LimitOf = unknown_limit
    rules: Spells | None = None
    if nodes is not None:
        cluster = cluster_of_nodes(nodes)
    if quotas is not None:
        cluster = cluster_of_quotas(quotas, kinds_of(everything), QUOTAS_OF_DUMP)
    if request is not None and is_of_kueue:
        cluster = cluster_of_quotas(request.quota_site(), kinds_of(everything))
    if request is not None and site is not None:
        cluster, limit_of = cluster_of_site(site[0], kinds_of(everything)), limits_of_site(site[0])
    if request is not None and (shape := request.shape()) is not None:
        cluster = cluster_of_option(shape, kinds_of(everything))
    if request is not None and site is not None and request.real:
        from gpuplan.planner.twin.held import rule_spells

        log = read_site_log(path, site[1].time_zone)
        rules = rule_spells(waits, log, *site)
    pools = pools_of(everything, cluster)
    return WaitAnalysis.of(
        waits, pools, rules=rules, limit_of=limit_of, over_time=request is not None
    )


def cluster_of_nodes(nodes: NodeGpus) -> StatedCluster | None:
    """Return the GPUs of nodes by type; None where they have none, or of a type nothing tells."""
    gpus: Counter[str | None] = Counter()
    for node, count in nodes.gpus.items():
        gpus[nodes.types[node]] += count
    return StatedCluster(NODES_OF_DUMP, gpus, nodes.gpus) if gpus and None not in gpus else None


def kinds_of(jobs: pl.DataFrame) -> list[str]:
    """Return what GPUs the jobs of a whole log run on."""
    held = jobs.filter(pl.col("num_gpus") > 0, pl.col("duration_s").is_not_null())
    names = held.select(kind_of(held, partition_kinds(jobs)))["kind"].unique().sort()
    kinds: list[str] = names.to_list()
    return kinds


def whole_log(trace: Trace, path: Path, jobs: Selection | None) -> pl.DataFrame:
    """Return all jobs of the log that a trace is part of: they hold the GPUs that others lack."""
    if jobs is None or (
        (jobs.where, jobs.since, jobs.until, jobs.sample) == (None,) * 4 and (trace.period is None)
    ):
        return trace.jobs
    everything = Selection(as_of=jobs.as_of, log=jobs.log)
    return read_trace(path, everything, columns=NEEDED, optional=SITE).jobs


def cluster_warnings(analysis: WaitAnalysis) -> Sequence[str]:
    """Return a sentence for each GPU type of which more were held than there are."""
    return [
        f"jobs held up to {row.peak_gpus:,.0f} {row.gpu_type} GPUs at once, more than the "
        f"{row.gpus:,.0f} of {row.source}"
        + ("; are the times local? Give --time-zone" if row.source == NODES else "")
        for row in analysis.summary().gpu_types
        if row.peak_gpus > row.gpus + OVER
    ]


def _notes(analysis: WaitAnalysis, request: WaitsRequest, trace: Trace) -> Iterator[str]:
    never = analysis.waits.never_started
    yield (
        f"waits are from submission to the first start, of the "
        f"{counted(analysis.waits.submit.size, 'job')} with GPUs that started"
        + (f"; {never:,} never did, or still wait" if never else "")
    )
    if analysis.waits.has_reservations:
        yield (
            "the wait after the reservation of quota is for admission checks; a job that was "
            "evicted counts until its first admission in the log"
        )
        if analysis.basis == REASONS:
            yield "Kueue's last reason before the reservation counts for the whole wait until then"
    elif analysis.basis == REASONS:
        yield (
            "Slurm keeps the last reason of a job and counts it for the whole wait; --real with "
            "--twin tells which rule held when"
        )
    if trace.rows > trace.jobs.height and request.jobs.where is not None:
        yield "GPUs held are those of all jobs of the log"


def cluster_of_option(shape: ClusterShape, kinds: Iterable[str]) -> StatedCluster:
    """Return what ``--cluster`` says; ``kinds`` are the GPU types of the log.

    Raises:
        UsageError: it names a type that the log does not have, or one that may be several.
    """
    of_type = {pool.gpu_type: pool.gpus or 0 for pool in shape.pools}
    if None in of_type:
        return StatedCluster("--cluster", of_type)
    named = match_types([name for name in of_type if name], list(kinds), "--cluster")
    gpus = {kind: of_type[name] for kind, name in named.items() if name is not None}
    return StatedCluster("--cluster", gpus)


def cluster_of_site(document: SiteDocument, kinds: Iterable[str]) -> StatedCluster:
    """Return the GPUs, nodes and partitions of a site's settings.

    Args:
        kinds: GPU types of the log, or its partitions where it names no types.

    Raises:
        UsageError: a value cannot be used.
    """
    site = site_of(document)
    of_node, by_type = site.gpus_of_node, site.gpus_of_type
    gpus: dict[str | None, int] = {}
    partitions = {part.name: frozenset(part.nodes) for part in site.partitions}
    kinds = list(kinds)
    named = match_types(list(by_type), kinds, "--twin", one_type_each=True) if by_type else {}
    for kind in kinds:
        name = named.get(kind)
        if name is not None:
            gpus[kind] = by_type[name]
        elif kind in partitions:
            gpus[kind] = sum(of_node[node] for node in partitions[kind])
        elif len(kinds) == 1:
            gpus[kind] = site.gpus
    return StatedCluster("--twin", gpus, of_node, partitions)


def limits_of_site(document: SiteDocument) -> LimitOf:
    """Return the limits of a site in GPUs, by Slurm's reason and whose they are."""
    site: SiteCluster = site_of(document)
    of_qos: dict[str, SiteQos] = {qos.name: qos for qos in site.qos}
    of_account = {row.account: row.grp_gpus for row in site.assocs if not row.user}

    def limit(reason: str, of: str) -> int | None:
        if reason == ACCOUNT_GPUS:
            return of_account.get(of)
        if reason not in LIMITS or of not in of_qos:
            return None
        gpus: int | None = getattr(of_qos[of], LIMITS[reason])
        return gpus

    return limit
