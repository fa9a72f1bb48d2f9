"""The kernel of Allpass: schedules worked by hand, and agreement with a slow twin."""

from dataclasses import replace

import numpy as np
import pytest

from gpuplan.simkit.allpass import simulator as module
from gpuplan.simkit.allpass.parameters import SCALE_OUT_RULES, Allpass, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.workload import Workload

NO_DELAY = StartUp(0, 0)
S = 1_000_000


@pytest.mark.kernels
def test_a_schedule_worked_by_hand_where_workers_are_rented_for_deadlines():
    """Threshold 60 s, checkpoint 10, restore 20, containers start in 2 s, workers in 30, tick 60.

    Job 0 (1 GPU, 50 s)  runs 2-52 and ends in its container: 52 - 0.
    Job 1 (1 GPU, 100 s, due 300) starts at 12, is demoted at 72 with 40 s left, queued at 82.
        The tick at 120 sees D = 20 + 40 = 60 s, no worker: p = 100, one worker (60 s fit into
        30 min), ready at 150. Restored and run 150-210.
    Job 2 (2 GPUs, 90 s, due 400) starts at 22, demoted at 82 with 30 s left, queued at 92.
        At 120 it adds D = 2 x 50, 160 s in all: one worker is enough for the work. Job 1 heads
        the queue. The tick at 180 finds job 2 at the head, wider than the pool of 1: one more
        worker, ready at 210. At 210 job 1 ends and both workers fall to job 2: 210-260.
    """
    workload = Workload.from_seconds([0, 10, 20], [50, 100, 90], [1, 1, 2], [500, 300, 400])
    rules = Allpass(
        controller="fixed",
        threshold_s=60,
        checkpoint_s=10,
        restore_s=20,
        serverless_startup=StartUp(2, 0),
        marketplace_startup=StartUp(30, 0),
        marketplace_prices=(1.0, 2.0),
        scale_out="window",
    )
    run = run_allpass(workload, rules, np.random.default_rng(0))
    assert run.start_us.tolist() == [2 * S, 12 * S, 22 * S]
    assert run.finish_us.tolist() == [52 * S, 210 * S, 260 * S]
    assert run.serverless_us.tolist() == [50 * S, 60 * S, 60 * S]
    assert run.startup_us.tolist() == [2 * S] * 3
    assert run.queue_us.tolist() == [0, (150 - 82) * S, (210 - 92) * S]
    assert run.demotion_us.tolist() == [0, 30 * S, 30 * S]
    rentals = run.rentals
    assert rentals.offer.tolist() == [0, 1]
    assert rentals.request_us.tolist() == [120 * S, 180 * S]
    assert rentals.ready_us.tolist() == [150 * S, 210 * S]
    assert rentals.release_us.tolist() == [260 * S, 260 * S]
    assert rentals.busy_us.tolist() == [(60 + 50) * S, 50 * S]
    assert run.timeline.queued.tolist() == [0, 2, 1, 0]
    # At 180: 30 s of job 1 and 2 x 50 of job 2 are due, on one worker: due in T = 4 min at the
    # latest. T = 2 min holds job 1 (deadline 300): 30/120. T = 4 min holds both: 130/240.
    # At 240: 2 x 20 s of job 2 on two workers, due within 3 min.
    assert run.timeline.pressure.tolist() == [0, 100, 130 / 240, 40 / (2 * 180)]
    hours = np.array([50, 60 + 10, 2 * (60 + 10)]) / 3600
    np.testing.assert_allclose(run.serverless_usd, 2.10 * hours, rtol=1e-12)
    np.testing.assert_allclose(run.rental_usd, [140 / 3600, 2 * 80 / 3600], rtol=1e-12)
    # 60 s of job 1, 2 x 50 s of job 2 share the bill of both workers.
    np.testing.assert_allclose(
        run.job_usd - run.serverless_usd, run.rental_usd.sum() * np.array([0, 60, 100]) / 160
    )


@pytest.mark.kernels
def test_the_same_jobs_where_workers_are_rented_for_all_that_wait():
    """As above up to the tick at 120, when jobs 1 and 2 wait for 3 workers, ready at 150.

    Job 1 takes the cheapest, 150-210, and job 2 the others, 150-200. No tick is left to release
    these before all is done at 210.
    """
    workload = Workload.from_seconds([0, 10, 20], [50, 100, 90], [1, 1, 2], [500, 300, 400])
    rules = Allpass(
        controller="fixed",
        threshold_s=60,
        checkpoint_s=10,
        restore_s=20,
        serverless_startup=StartUp(2, 0),
        marketplace_startup=StartUp(30, 0),
        marketplace_prices=(1.0, 2.0, 4.0),
    )
    run = run_allpass(workload, rules, np.random.default_rng(0))
    assert run.finish_us.tolist() == [52 * S, 210 * S, 200 * S]
    assert run.serverless_us.tolist() == [50 * S, 60 * S, 60 * S]
    assert run.queue_us.tolist() == [0, (150 - 82) * S, (150 - 92) * S]
    assert run.rentals.offer.tolist() == [0, 1, 2]
    assert run.rentals.request_us.tolist() == [120 * S] * 3
    assert run.rentals.release_us.tolist() == [210 * S] * 3
    assert run.rentals.busy_us.tolist() == [60 * S, 50 * S, 50 * S]
    # At 180: 30 s of job 1, due in 2 min, and 2 x 20 of job 2, due in 4, on three workers.
    assert run.timeline.pressure.tolist() == [0, 100, 70 / (3 * 240)]


@pytest.mark.kernels
@pytest.mark.parametrize("controller", ["fixed", "adaptive"])
def test_a_gap_of_decades_is_passed_over(controller):
    """Tick by tick, as plain Python, these 90 years would take hours."""
    gap = 90 * 365 * 86_400
    submit, service, gpus = [0, 10, 20], [50, 100, 90], [1, 1, 2]
    once = Workload.from_seconds(submit, service, gpus, [500, 300, 400])
    twice = Workload.from_seconds(
        [*submit, *(gap + s for s in submit)],
        service * 2,
        gpus * 2,
        [500, 300, 400, gap + 500, gap + 300, gap + 400],
    )
    rules = Allpass(
        controller=controller,
        threshold_s=60,
        min_threshold_s=60,
        checkpoint_s=10,
        restore_s=20,
        serverless_startup=StartUp(2, 0),
        marketplace_startup=StartUp(30, 0),
        marketplace_prices=(1.0, 2.0, 4.0),
    )
    first = run_allpass(once, rules, np.random.default_rng(0))
    both = run_allpass(twice, rules, np.random.default_rng(0))
    assert both.finish_us[:3].tolist() == first.finish_us.tolist()
    assert (both.finish_us[3:] - gap * S).tolist() == first.finish_us.tolist()
    assert (both.serverless_us[3:]).tolist() == first.serverless_us.tolist()
    rented = first.rentals.offer.size
    assert both.rentals.offer.tolist() == first.rentals.offer.tolist() * 2
    later = both.rentals.request_us[rented:] - gap * S
    assert later.tolist() == first.rentals.request_us.tolist()


@pytest.mark.kernels
def test_a_rising_threshold_extends_running_jobs_and_a_falling_one_demotes_at_once():
    # No work in the serverful tier: the threshold falls by 2 s a minute from 100 to 98 at t = 60,
    # 96 at 120, ... Job 0 starts at 0 and is demoted when it has run 98 s, at t = 98.
    # Job 1 starts at 25; at t = 120 it has run 95 s. Job 0 queues since 98 and no worker is ready
    # before t = 720, so p = 100 and F = 98 + 100 = 198, its maximum: job 1 runs on to 223.
    workload = Workload.from_seconds([0, 25], [1000, 1000], [1, 1], [1500, 1500])
    rules = Allpass(
        threshold_s=100,
        max_threshold_s=198,
        checkpoint_s=0,
        serverless_startup=NO_DELAY,
        marketplace_startup=StartUp(600, 0),
    )
    run = run_allpass(workload, rules, np.random.default_rng(0))
    assert run.serverless_us.tolist() == [98 * S, 198 * S]
    # The ticks until a worker is ready change nothing and are not noted.
    assert run.timeline.threshold_us[:2].tolist() == [98 * S, 198 * S]
    assert run.timeline.time_us[:2].tolist() == [60 * S, 120 * S]
    assert run.timeline.time_us[3] > 240 * S
    kept = run_allpass(
        workload, replace(rules, threshold_rule="admission"), np.random.default_rng(0)
    )
    assert kept.serverless_us.tolist() == [100 * S, 100 * S]


@pytest.mark.kernels
def test_a_fall_below_the_time_already_run_demotes_at_the_tick():
    # F = 60.5 falls by 30 s at t = 60 (gain 30, no pressure): the job has run 60 s > 30.5.
    run = run_allpass(
        Workload.from_seconds([0], [100], [1], [200]),
        Allpass(threshold_s=60.5, min_threshold_s=0.0, gain_down_s=30, serverless_startup=NO_DELAY),
        np.random.default_rng(0),
    )
    assert run.serverless_us.tolist() == [60 * S]


@pytest.mark.kernels
def test_a_finish_at_the_threshold_is_a_finish():
    run = run_allpass(
        Workload.from_seconds([0], [60], [1], [100]),
        Allpass(controller="fixed", threshold_s=60),
        np.random.default_rng(0),
    )
    assert not run.demoted.any()


@pytest.mark.kernels
def test_marketplace_first_then_the_cloud_and_jobs_take_the_cheapest():
    # All is due within 30 min of the tick at 60: 4600 s of work ask for 3 workers.
    workload = Workload.from_seconds([0, 0, 0], [1000, 1800, 1800], [1, 1, 1], [1060, 1850, 1850])
    run = run_allpass(
        workload,
        Allpass(
            controller="fixed",
            threshold_s=0,
            checkpoint_s=0,
            restore_s=0,
            serverless_startup=NO_DELAY,
            marketplace_startup=NO_DELAY,
            conventional_startup=NO_DELAY,
            marketplace_prices=(0.5, 3.0),
        ),
        np.random.default_rng(0),
    )
    assert run.rentals.offer.tolist() == [0, 1, -1]
    assert run.rentals.price.tolist() == [0.5, 3.0, 1.29]
    # Job 0, the first due, takes the cheapest worker, which is idle at 1060 and goes at the tick.
    assert run.rentals.busy_us.tolist() == [1000 * S, 1800 * S, 1800 * S]
    assert run.rentals.release_us.tolist() == [1080 * S, 1860 * S, 1860 * S]


@pytest.mark.kernels
def test_a_gang_wider_than_the_tier_stays_in_its_container():
    run = run_allpass(
        Workload.from_seconds([0, 0], [500, 500], [4, 2], [600, 600]),
        Allpass(capacity=3),
        np.random.default_rng(0),
    )
    assert run.demoted.tolist() == [False, True]


def test_work_drives_the_pool_unless_it_is_bounded_by_the_width_of_the_jobs():
    """Specification, section 2: "S = max(0, D(t,T) - I mu T), add ceil(S/(mu T)) workers".

    One GPU with 10 days left, due at once: D / T asks for 480 workers (and 42 s for the restore
    for one more); a single job uses one.
    """
    for scaling, found in (("literal", 481), ("bounded", 1)):
        for scale_out in SCALE_OUT_RULES:  # an overdue job counts under both
            run = run_allpass(
                Workload.from_seconds([0], [864_000], [1], [60]),
                Allpass(controller="fixed", threshold_s=0, scaling=scaling, scale_out=scale_out),
                np.random.default_rng(0),
            )
            assert run.rentals.offer.size == found


@pytest.mark.kernels
def test_a_surplus_is_released_most_expensive_first():
    """Specification, section 2: "surplus U = max(0, I mu T - D(t,T)), release floor(U/(mu T)) IDLE
    workers when p < 1, the most expensive first; T = 30 min".

    Job 0 (3000 s) and three jobs of 1000 s, one GPU each, all due at 1860. At 60, D = 6000 s asks
    for 4 workers: the offers at 1, 2 and 5 $ and, last, the cloud at 1.29 $. Job 0 takes the
    cheapest. The others end at 1060.
    1080: D = 1980, due in 13 min: p = 1980 / (4 x 780) < 1. U = 7200 - 1980 = 5220, 2.9 workers:
        2 of the 3 idle ones go, those of 5 $ and 2 $.
    1140: D = 1920, due in 12 min: p = 1920 / (2 x 720) > 1, and it stays above until
    3000: D = 60: p = 60 / (2 x 60) < 1. U = 3540, 1.97 workers: the one of 1.29 $ goes.
    """
    workload = Workload.from_seconds([0] * 4, [3000, 1000, 1000, 1000], [1] * 4, [1860] * 4)
    rules = Allpass(
        controller="fixed",
        threshold_s=0,
        checkpoint_s=0,
        restore_s=0,
        serverless_startup=NO_DELAY,
        marketplace_startup=NO_DELAY,
        conventional_startup=NO_DELAY,
        marketplace_prices=(1.0, 2.0, 5.0),
        scale_out="window",
        scaling="literal",
    )
    run = run_allpass(workload, rules, np.random.default_rng(0))
    assert run.rentals.price.tolist() == [1.0, 2.0, 5.0, 1.29]
    assert run.rentals.busy_us.tolist() == [3000 * S, 1000 * S, 1000 * S, 1000 * S]
    assert run.rentals.release_us.tolist() == [3060 * S, 1080 * S, 1080 * S, 3000 * S]
    # One job is left at 1080: a bounded pool keeps one worker.
    bounded = run_allpass(workload, replace(rules, scaling="bounded"), np.random.default_rng(0))
    assert bounded.rentals.release_us.tolist() == [3060 * S, 1080 * S, 1080 * S, 1080 * S]


def test_a_threshold_that_moves_for_a_century_is_refused(monkeypatch):
    # A minute's tick moves it by less than a second: 52 million ticks are a century.
    monkeypatch.setattr(module, "MOST_SIZE", 1 << 14)
    rules = Allpass(gain_down_s=1e-5)
    workload = Workload.from_seconds([0], [3e6], [1], [1e7])
    with pytest.raises(ValueError, match="moves its threshold millions of times"):
        run_allpass(workload, rules, np.random.default_rng(0))


def test_a_pool_without_measure_is_refused():
    # A century on 64 GPUs, overdue: 112 million workers would share the work.
    workload = Workload.from_seconds([0], [3.15e9], [64], [60])
    rules = Allpass(controller="fixed", threshold_s=0, scaling="literal")
    with pytest.raises(ValueError, match="16 million rentals"):
        run_allpass(workload, rules, np.random.default_rng(0))
    bounded = run_allpass(workload, replace(rules, scaling="bounded"), np.random.default_rng(0))
    assert bounded.rentals.offer.size == 64


@pytest.mark.kernels
def test_a_head_due_at_the_very_end_of_the_window_raises_the_pool():
    # Due at 60 + 1800: 2 x 100 s of work ask for one worker, the gang for two.
    rules = Allpass(
        controller="fixed", threshold_s=0, serverless_startup=NO_DELAY, scale_out="window"
    )
    for deadline, requested in ((1860, 60), (1861, 120)):
        workload = Workload.from_seconds([0], [100], [2], [deadline])
        run = run_allpass(workload, rules, np.random.default_rng(0))
        assert run.rentals.request_us.tolist() == [requested * S] * 2


@pytest.mark.kernels
def test_the_threshold_moves_by_the_published_gains():
    """Specification, section 2: F_0 = 300 s, G_up = 10, R_up = 100, G_dn = 2, R_dn = 30 (seconds).

    Two overdue jobs of 600 s share one worker, ready at once: D = 1260 - t at tick t, p = D / 60.
    p is 100 at 60 and at least 11 to t = 600: +100. Then 10, 9, ... 2 give 10 s (p - 1); p = 1
    gives nothing.
    """
    rules = Allpass(
        threshold_s=0,
        capacity=1,
        checkpoint_s=0,
        restore_s=0,
        serverless_startup=NO_DELAY,
        marketplace_startup=NO_DELAY,
    )
    busy = Workload.from_seconds([0, 0], [600, 600], [1, 1], [0, 0])
    run = run_allpass(busy, rules, np.random.default_rng(0))
    rises = np.diff(run.timeline.threshold_us, prepend=0) // S
    assert rises.tolist() == [100] * 10 + [90, 80, 70, 60, 50, 40, 30, 20, 10, 0]
    # Without demand p = 0: down by G_dn, at most R_dn.
    calm = Workload.from_seconds([0], [200], [1], [400])
    for gain, fall in ((2.0, 2), (29.0, 29), (50.0, 30)):
        run = run_allpass(calm, Allpass(gain_down_s=gain), np.random.default_rng(0))
        down = [(300 - fall * tick) * S for tick in (1, 2, 3)]
        assert run.timeline.threshold_us.tolist()[:3] == down


def test_the_defaults_are_the_published_ones_but_for_renting():
    rules = Allpass()
    assert (rules.threshold_s, rules.max_threshold_s) == (300, 3600)
    with pytest.raises(ValueError, match="min_threshold_s must be at most max_threshold_s"):
        Allpass(min_threshold_s=100.0, max_threshold_s=50.0)
    assert (rules.gain_up_s, rules.limit_up_s) == (10, 100)
    assert (rules.gain_down_s, rules.limit_down_s, rules.max_pressure) == (2, 30, 100)
    assert (rules.tick_s, rules.window_s, rules.checkpoint_s + rules.restore_s) == (60, 1800, 84)
    assert (rules.serverless_price, rules.conventional_price) == (2.10, 1.29)
    assert rules.serverless_startup == StartUp(3.88, 1.84)
    assert rules.marketplace_startup == StartUp(36.04, 7.35)
    assert rules.conventional_startup == StartUp(255.59, 26.26)
    assert (rules.threshold_rule, rules.scale_out, rules.scaling) == ("live", "queue", "bounded")


def test_the_threshold_falls_to_what_a_move_takes_unless_set_otherwise():
    assert Allpass().least_threshold_s == 84
    assert Allpass(checkpoint_s=10.0, restore_s=5.0).least_threshold_s == 15
    assert Allpass(threshold_s=60.0).least_threshold_s == 60
    assert Allpass(checkpoint_s=900.0).least_threshold_s == 300
    assert Allpass(min_threshold_s=0.0).least_threshold_s == 0
    # A job an hour, with so much time that the threshold falls by 2 s a minute.
    calm = Workload.from_seconds([0, 50_000], [10, 10], [1, 1], [50_000, 100_000])
    for set_s, least in ((None, 84), (0.0, 0), (200.0, 200)):
        run = run_allpass(calm, Allpass(min_threshold_s=set_s), np.random.default_rng(0))
        assert run.timeline.threshold_us.min() == least * S


@pytest.mark.kernels
def test_the_threshold_falls_to_the_mean_of_what_moves_take_where_jobs_have_own_times():
    calm = Workload.from_seconds([0, 50_000], [10, 10], [1, 1], [50_000, 100_000])
    own = replace(
        calm, checkpoint_us=np.array([5, 90]) * S, restore_us=np.array([15, 10]) * S
    )  # 20 s and 100 s
    plain = Allpass()
    assert plain.move_s(calm) == 84 and plain.move_s(own) == 60
    for rules, least in (
        (plain, 60),
        (Allpass(threshold_s=40.0), 40),
        (Allpass(max_threshold_s=50.0, threshold_s=50.0), 50),
        (Allpass(min_threshold_s=7.0), 7),
    ):
        run = run_allpass(own, rules, np.random.default_rng(0))
        assert run.timeline.threshold_us.min() == least * S
        assert run.parameters.min_threshold_s == least


@pytest.mark.kernels
def test_a_late_deadline_waits_for_the_window_unless_the_queue_is_served():
    # In the queue at 42, due at 9000. The window of 30 min reaches 9000 at the tick at 7200; a
    # pool that serves the queue rents at the tick at 60.
    workload = Workload.from_seconds([0], [900], [2], [9000])
    rules = Allpass(
        controller="fixed",
        threshold_s=0,
        serverless_startup=NO_DELAY,
        marketplace_startup=NO_DELAY,
    )
    for chosen, found in (({"scale_out": "window"}, 7200), ({"scale_out": "queue"}, 60), ({}, 60)):
        run = run_allpass(workload, replace(rules, **chosen), np.random.default_rng(0))
        assert run.rentals.request_us.tolist() == [found * S] * 2
        assert run.finish_us.tolist() == [(found + 42 + 900) * S]
