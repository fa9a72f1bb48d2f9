"""What-ifs in pairs: chance, patience, errors and verdicts, by hand and against a known truth."""

import numpy as np
import pytest

from gpuplan.analysis.site.document import SiteDocument
from gpuplan.planner.site.effects import (
    DAY_S,
    NO_CHANGE,
    QUANTILES,
    SMALL_SHARE,
    UNCLEAR,
    WEEK_S,
    blocks_of,
    effects_of,
    error_of,
)
from gpuplan.planner.site.pairs import _is_explained
from gpuplan.planner.site.replicas import (
    LEAST_GIVEN_UP,
    Chance,
    Patience,
    Replica,
    Replicas,
    SiteCase,
    patience_of,
)
from gpuplan.planner.twin.workload import JITTER_S, SiteWorkload
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.refusals import CANCELLED, REASONS
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteCluster,
    SiteJob,
    SiteNode,
    SitePartition,
)

pytestmark = pytest.mark.compiled
EASY = SchedulerConfig(backfill="easy")


def site(nodes):
    names = tuple(f"n{i}" for i in range(nodes))
    return SiteCluster(tuple(SiteNode(name, 8) for name in names), (SitePartition("p", names),))


def work_of(jobs, recorded_start, gave_up=None, warmup_until=0):
    started = recorded_start >= 0
    gave_up = np.zeros(jobs.id.size, np.bool_) if gave_up is None else gave_up
    ids = tuple(map(str, jobs.id))
    return SiteWorkload(jobs, ids, recorded_start, started, gave_up, {}, warmup_until, ())


def busy_jobs(count, seed=0, users=10):
    """Jobs of many users that keep four nodes of 8 GPUs busy at 97%."""
    rng = np.random.default_rng(seed)
    run, gpus = rng.exponential(7200, count).astype(int) + 60, rng.choice([1, 2, 4, 8], count)
    submit = np.cumsum(rng.exponential((run * gpus).mean() / 32 / 0.97, count)).astype(int)
    return SiteJobs.of(
        SiteJob(i, int(submit[i]), 1, int(gpus[i]), int(run[i]) * 2, int(run[i]),
                user=f"u{i % users}", account=f"a{i % users % 5}")
        for i in range(count)
    )  # fmt: skip


def replayed(changed_site, changed_config, count=1500, pairs=12):
    """Return the work and the replicas of today and of a change, on four nodes."""
    jobs = busy_jobs(count)
    work = work_of(jobs, jobs.submit.copy())
    cases = [
        SiteCase("today", site(4), jobs, EASY),
        SiteCase("x", changed_site, jobs, changed_config),
    ]
    replicas = Replicas(cases, Chance.of(work, None))
    replicas.grow([0, 1], pairs)
    return work, replicas


def test_where_nothing_is_real_few_of_many_groups_get_a_verdict():
    # The change has no effect at all: both sides are the same site under different chance.
    told = count = 0
    for seed in range(3):
        jobs = busy_jobs(1000, seed, users=20)
        work = work_of(jobs, jobs.submit.copy())
        replicas = Replicas([SiteCase("today", site(4), jobs, EASY)], Chance.of(work, None))
        replicas.grow([0], 24)
        for by in ("user", "account", "size"):
            for group in effects_of(
                work, replicas.of[0][:12], replicas.of[0][12:], by, is_explained=True
            ):
                assert group.effect_s != 0.0
                told += (group.verdict != UNCLEAR) + (group.p95_verdict != UNCLEAR)
                count += 2
    assert count == 180 and told <= 0.05 * count


def test_a_node_less_is_longer_for_all_and_for_every_user():
    work, replicas = replayed(site(3), EASY, count=800, pairs=6)
    groups = effects_of(work, *replicas.of, "user", is_explained=True)
    assert {group.verdict for group in groups} == {"longer"}
    assert all(group.jobs == 80 for group in groups[1:])


def test_the_same_site_gives_exactly_nothing():
    work, replicas = replayed(site(4), EASY, count=300, pairs=6)
    for group in effects_of(work, *replicas.of, "size", is_explained=True):
        assert group.effect_s == group.error_s == group.p95_effect_s == group.p95_error_s == 0.0
        assert group.verdict == group.p95_verdict == NO_CHANGE
        assert group.under_s == group.p95_under_s == 0.0 and group.is_precise(6)


def test_replicas_do_not_depend_on_what_is_replayed_beside_them():
    jobs = busy_jobs(200)
    chance = Chance.of(work_of(jobs, jobs.submit.copy()), None)
    cases = [SiteCase("today", site(4), jobs, EASY), SiteCase("x", site(3), jobs, EASY)]
    both, alone = Replicas(cases, chance), Replicas(cases[1:], chance)
    both.grow([0, 1], 6)
    alone.grow([0], 3)
    alone.grow([0], 6)
    for run, again in zip(both.of[1], alone.of[0], strict=True):
        assert (run.wait == again.wait).all()


def test_a_job_has_the_same_luck_wherever_its_id_is_the_same():
    jobs = busy_jobs(50)
    pinned = jobs.pinned.copy()
    pinned[3] = 1000
    jobs = jobs.changed(pinned=pinned)
    chance = Chance.of(work_of(jobs, jobs.submit + 100), Patience(*curve([0.0], [1e-4]), 20))
    whole = chance.applied(jobs, 4)
    part = chance.applied(jobs.kept(jobs.id % 2 == 1), 4)
    assert (whole.submit[1::2] == part.submit).all()
    assert (whole.cancel[1::2] == part.cancel).all()
    later = whole.submit - jobs.submit
    assert later.min() >= 0 and later.max() <= JITTER_S and later.std() > 0
    assert later[3] == 0 and whole.cancel[3] == NEVER  # starts as recorded
    free = np.arange(50) != 3
    assert (whole.cancel - whole.ready)[free].min() > 100  # known to have had patience for that
    more = jobs.changed(id=jobs.id + np.where(jobs.id == 49, 10, 0))
    assert chance.applied(more, 4).cancel[-1] == NEVER  # not a job of the log


def curve(begin, rate):
    return np.array(begin), np.array(rate)


def test_patience_is_told_from_time_waited():
    # 40 jobs wait 100 s each and start; 20 wait 50 s and are given up: 20 in 5,000 s.
    jobs = SiteJobs.of(
        SiteJob(i, 1000, 1, 1, 60, 60 if i < 40 else 0, cancel=None if i < 40 else 1050)
        for i in range(60)
    )
    started = np.where(np.arange(60) < 40, 1100, -1)
    patience = patience_of(work_of(jobs, started, started < 0))
    assert patience is not None and patience.given_up == 20
    assert patience.begin_s.tolist() == [0.0, 50.0, 51.0]
    waited = [60 * 50, 40 * 1, 40 * 49]
    assert patience.rate[1] == pytest.approx(20 / waited[1])
    assert patience.rate[2] == pytest.approx(0.5 / waited[2])  # nobody gave up that late
    few = np.flatnonzero(started < 0)[: LEAST_GIVEN_UP - 1]
    gave_up = np.isin(np.arange(60), few)
    assert patience_of(work_of(jobs, started, gave_up)) is None
    assert patience_of(work_of(jobs, started, started < 0, warmup_until=2000)) is None


def test_draws_of_patience_have_its_rates():
    patience = Patience(*curve([0.0, 1000.0], [1e-3, 1e-4]), 20)
    draws = np.random.default_rng(1).exponential(size=200_000)
    waits = patience.waits_s(np.zeros(draws.size), draws)
    assert (waits > 1000).mean() == pytest.approx(np.exp(-1), rel=0.01)
    assert waits[waits > 1000].mean() == pytest.approx(1000 + 1e4, rel=0.01)
    rest = patience.waits_s(np.full(draws.size, 600.0), draws)
    assert rest.min() >= 600
    assert (rest > 1000).mean() == pytest.approx(np.exp(-0.4), rel=0.01)


def test_jobs_that_are_given_up_count_in_neither_replay():
    jobs = busy_jobs(20)
    work = work_of(jobs, jobs.submit + 60)
    wait = np.arange(20) * 10
    lost, reason = wait.copy(), np.zeros(20, np.int64)
    lost[19], reason[19] = -1, CANCELLED
    nothing = np.zeros(20, np.int64)
    today = [Replica(wait, nothing, nothing, nothing)] * 6
    changed = [Replica(np.where(lost >= 0, lost + 5, -1), reason, nothing, nothing)] * 6
    (whole, *_) = effects_of(work, today, changed, "size", is_explained=True)
    assert whole.jobs == 19 and whole.effect_s == 5.0 and whole.p95_effect_s == 5.0
    assert (
        whole.replayed_mean_wait_s == np.arange(19).mean() * 10 and whole.recorded_mean_wait_s == 60
    )


def test_jobs_that_a_change_rejects_make_no_wait_shorter():
    # Of 20 jobs that wait an hour, 5 never start with the change, and the others start at once.
    jobs = busy_jobs(20)
    work = work_of(jobs, jobs.submit + 3600)
    nothing, rejected = np.zeros(20, np.int64), np.arange(20) < 5
    today = [Replica(nothing + 3600, nothing, nothing, nothing)] * 6
    reason = np.where(rejected, REASONS.index("QOSMaxGRESPerJob"), 0)
    changed = [Replica(np.where(rejected, -1, 0), reason, nothing, nothing)] * 6
    (whole, *_) = effects_of(work, today, changed, "size", is_explained=True)
    assert (whole.jobs, whole.lost_jobs) == (20, 5)
    # Those wait to the end of the log, the last start, an hour after the last submission.
    end = int(jobs.submit.max()) + 3600
    wait_s = np.where(rejected, np.maximum(end - jobs.ready, 3600), 0)
    assert whole.changed_mean_wait_s == pytest.approx(wait_s.mean())
    assert whole.effect_s > 0 and whole.verdict != "shorter"
    assert whole.recorded_mean_wait_s == whole.replayed_mean_wait_s == 3600
    # Fewer than one in a hundred are left out, on both sides and in the record.
    few = np.arange(1000) < 5
    jobs = busy_jobs(1000)
    work = work_of(jobs, jobs.submit + np.where(few, 9000, 3600))
    nothing = np.zeros(1000, np.int64)
    today = [Replica(nothing + 3600, nothing, nothing, nothing)] * 6
    changed = [Replica(np.where(few, -1, 0), np.where(few, 3, 0), nothing, nothing)] * 6
    (whole, *_) = effects_of(work, today, changed, "size", is_explained=True)
    assert (whole.jobs, whole.effect_s, whole.recorded_mean_wait_s) == (995, -3600, 3600)
    assert whole.verdict == "shorter"


def test_the_wait_of_all_parts_counts_where_asked_for():
    # Two hours of work under a limit of one, on a node of its own: the rest queues behind job 1.
    rows = [SiteJob(0, 0, 1, 8, 3600, 3600), SiteJob(1, 60, 1, 8, 3600, 1800)]
    jobs = SiteJobs.of(rows).changed(rest=np.array([3600, 0]), rest_limit=np.array([3600, 0]))
    run = replay_site(site(1), jobs, EASY)
    assert run.wait.tolist() == [0, 3540]
    assert run.later_wait.tolist() == [1800, 0]
    work = work_of(SiteJobs.of(rows), np.array([0, 3600]))
    nothing = np.zeros(2, np.int64)
    today = [Replica(nothing, nothing, nothing, nothing)] * 6
    changed = [Replica(run.wait, nothing, nothing, run.later_wait)] * 6
    first, whole = (
        effects_of(work, today, changed, "size", is_explained=True, all_parts=all_parts)[0]
        for all_parts in (False, True)
    )
    assert (first.effect_s, whole.effect_s) == (1770, 2670)


def test_the_largest_of_many_effects_has_to_stand_out():
    # Chance alone: 40 users, and the change does nothing. The largest effect is beyond 7 of 8.
    few = error_of(100.0, 6, 0.0)
    many = error_of(100.0, 6, 0.0, figures=80)
    assert many > 2 * few
    assert error_of(100.0, 6, 0.0, figures=1) == few
    rng = np.random.default_rng(3)
    draws = rng.normal(0.0, 1.0, (2000, 80, 7))  # six pairs and the history of each
    errors = draws[..., :6].std(axis=2, ddof=1) * many / 100
    apart = np.abs(draws[..., :6].mean(axis=2) - draws[..., 6])
    assert 0.05 < (apart > errors).any(axis=1).mean() < 0.2


def test_a_model_resolves_no_less_than_a_share_of_the_wait():
    # The change takes 4% off every wait in every pair: no chance is in it, and no model that good.
    jobs = busy_jobs(200)
    work = work_of(jobs, jobs.submit + 3600)
    nothing = np.zeros(200, np.int64)
    for less, verdict in ((0.04, UNCLEAR), (0.2, "shorter")):
        runs = [
            [Replica(nothing + wait, nothing, nothing, nothing)] * 6
            for wait in (3600, round(3600 * (1 - less)))
        ]
        (whole, *_) = effects_of(work, *runs, "size", is_explained=True)
        assert whole.error_s == pytest.approx(QUANTILES[6] * SMALL_SHARE * 3600)
        assert whole.verdict == verdict


def test_errors_by_hand():
    assert error_of(100.0, 24, 0.0) == pytest.approx(QUANTILES[24] * 100 * np.sqrt(25 / 24))
    assert error_of(100.0, 6, 500.0) == 500.0  # one lucky week
    assert error_of(0.0, 6, 10.0, unexplained=60.0) == 70.0


def test_an_effect_of_one_week_is_not_told():
    jobs = busy_jobs(70)
    jobs = jobs.changed(submit=np.sort(np.arange(70) % 7) * WEEK_S, ready=jobs.submit)
    work = work_of(jobs, jobs.ready + 60)
    nothing = np.zeros(70, np.int64)
    weekly, once = np.full(70, 600), np.where(jobs.submit == 0, 4200, 0)
    for extra, verdict in ((weekly, "longer"), (once, UNCLEAR)):
        runs = [[Replica(nothing + 60 + i + more, nothing, nothing, nothing) for i in range(6)]
                for more in (nothing, extra)]  # fmt: skip
        (whole, *_) = effects_of(work, *runs, "size", is_explained=True)
        assert whole.effect_s == 600.0 and whole.verdict == verdict


def test_blocks_are_weeks_else_days_else_one():
    assert blocks_of(np.arange(8) * WEEK_S + 5).tolist() == [0, 1, 2, 3, 4, 5, 6, 6]
    assert blocks_of(np.arange(9) * DAY_S).max() == 7
    assert blocks_of(np.arange(9) * 3600).max() == 0
    assert blocks_of(np.zeros(0, np.int64)).size == 0


def test_pairs_are_added_until_their_number_says_little_more():
    work = work_of(busy_jobs(20), np.zeros(20, np.int64))
    rng = np.random.default_rng(2)
    nothing = np.zeros(20, np.int64)

    def runs(mean, spread):
        draws = rng.normal(mean, spread, 6)
        return [Replica(np.full(20, int(draw)), nothing, nothing, nothing) for draw in draws]

    def is_precise(effect, spread):
        whole = effects_of(work, runs(10_000, 0), runs(10_000 + effect, spread), "size",
                           is_explained=True)[0]  # fmt: skip
        return whole.is_precise(6)

    assert is_precise(8000, 1500) and not is_precise(0, 3000) and is_precise(0, 300)


def test_the_calibration_does_not_explain_a_guess():
    before, after = SiteDocument(), SiteDocument()
    for document, value in ((before, 10), (after, 20)):
        document.put(value, "qos", "normal", "MaxTRESPU", "gpu", source="inferred")
    assert not _is_explained(before, after, "events", "events")
    assert _is_explained(before, before, "events", "events")
    assert not _is_explained(before, before, "bf", "limits")
    before.put(10, "qos", "normal", "MaxTRESPU", "gpu", source="given")
    assert _is_explained(before, after, "limits", "limits")


@pytest.mark.slow
def test_effects_agree_with_a_site_whose_truth_is_known(shared):
    data = shared / "data" / "sitelab"
    if not data.exists():
        pytest.skip("the site with known truth (../shared/data/sitelab) is not here")
    from benchmarks.whatif_truth import comparisons, score_of

    rows = comparisons(data)
    users = score_of(rows)
    score = score_of([row for row in rows if row.by != "user"])
    assert users.effects > 900 and users.large > 200 and users.null > 400
    assert score.effects > 400 and score.large > 100 and score.null > 150
    for each, told in ((users, 0.8), (score, 0.9)):
        assert each.covered >= 0.9 and each.history >= 0.8
        assert each.told >= told and each.wrong == 0 and each.false <= 0.05
    load = next(
        row for row in rows if (row.change, row.by, row.measure) == ("load1.2", "all", "mean")
    )
    assert abs(load.effect - load.truth) < load.error  # users who give up keep the queue short
