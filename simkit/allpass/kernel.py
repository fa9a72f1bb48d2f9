"""The event loop of Allpass: arrays in, arrays out, time in whole microseconds.

Source: "Allpass", sections 3.2 and 3.3, Algorithms 1 and 2, as made precise in ``docs/allpass.md``.
Events are taken in the order (time, kind, number of job or worker); `KINDS` is the order of kinds.
A container that gets ready needs no event: when its job starts is known when it is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.allpass.buffers import (
    AWAY,
    CHAIN,
    CHECKPOINT_DONE,
    DEMOTE,
    DISPATCH,
    FINISH,
    FINISH_SERVERFUL,
    FINISH_SERVERLESS,
    LEASE,
    LEFT_US,
    LOST,
    MARKET,
    NUMBER,
    QUEUE,
    RUNNING,
    SERVED,
    SERVERLESS,
    SINCE,
    START,
    STATE,
    SUBMIT,
    TICK,
    WORKER_READY,
    note,
)
from gpuplan.simkit.allpass.demand import RATE, WIDTH, WORK, fold_overdue, pressure, settled
from gpuplan.simkit.allpass.gangs import (
    AHEAD,
    NeverDone,
    end_gang,
    start_container,
    start_gang,
    stop_gang,
)
from gpuplan.simkit.allpass.scalers import (
    largest_fall,
    next_threshold,
    rent_or_release,
    steady_until,
    ticks_alike,
)
from gpuplan.simkit.heap import insert, pop
from gpuplan.simkit.jit import kernel
from gpuplan.simkit.renting.pool import (
    IDLE,
    JOB,
    LISTED_DOWN,
    MOST_GANG,
    OFFER,
    PRICE,
    READY,
    RECLAIMED,
    RELEASE,
    TooWide,
    charge,
    free_offers,
    let_go,
    list_anew,
    list_idle,
    release_all,
    rent,
    take_idle,
)
from gpuplan.simkit.time import FOREVER

MOST_RENTALS = 1 << 24  # 2 GB of them
MOST_HELD = 1 << 20  # workers at once; the work on each grows with how many there are

MOST_RECLAIMED = 1 << 16  # and 16 for each GPU of all jobs, while no job makes progress


@kernel
def replay(
    submit: Any,
    service: Any,
    gpus: Any,
    deadline: Any,
    bucket: Any,
    edges: Any,
    startup: Any,
    checkpoint: Any,
    restore: Any,
    market_start: Any,
    market_first: Any,
    market_price: Any,
    offer_startup: Any,
    conventional_startup: Any,
    rules: Any,
    buffers: Any,
) -> Any:
    """Run every job to its end.

    Args:
        submit, service, gpus, deadline, startup: one value per job, shape (n,); ``startup`` is the
            sampled start-up time of its container.
        bucket: row of the table of demand that a job counts in; ``edges[bucket]`` is its deadline
            rounded up to a multiple of every window's and tick's length.
        edges: ascending, one per bucket.
        checkpoint, restore: times of each job, shape (n,).
        market_start, market_first: time of each step of the market, and where its offers begin.
        market_price: their prices, ascending within a step, billionths of a dollar.
        offer_startup, conventional_startup: sampled start-up times; the k-th rental from a kind of
            provider takes entry k, counted round.
        rules: `gpuplan.simkit.allpass.scalers.ScalingRules`.
        buffers: empty `gpuplan.simkit.allpass.buffers.Buffers`, which holds the results.

    Returns:
        How many rentals there were, and how many ticks the time line has; -1 for both where the
        buffers are too small: run again with larger ones.

    Raises:
        ValueError: there would be more than `MOST_RENTALS` rentals, or `MOST_HELD` at once.
        TooWide: a job would move to more than `MOST_GANG` workers.
        NeverDone: `MOST_RECLAIMED` workers were taken away without progress in two rounds of the
            market, or two leases.
    """
    n = submit.size
    jobs, workers, bills = buffers.jobs, buffers.workers, buffers.bills
    demand, running, queue, ends, soon = (
        buffers.demand,
        buffers.running,
        buffers.queue,
        buffers.ends,
        buffers.soon,
    )
    cheapest, most_expensive = buffers.cheapest, buffers.most_expensive
    offers = free_offers(market_first)
    slots = offers[0, 0]
    holder = np.full(slots, -1, np.int64)  # which worker each offer is
    step = round_start = market_held = paid = 0
    listed = market_first[1]
    next_market = rules.market_period_us if market_start.size == 1 else market_start[1]
    threshold = rules.threshold_us
    next_submit = next_admit = done = notes = due = 0
    rentals = rentals_market = rentals_conventional = 0
    ready = starting = idle = serverful_width = serverless = 0
    now = 0
    next_tick = 0 if rules.by_utilization else rules.tick_us  # its first workers are there early
    wishes = np.zeros((rules.stabilization_us // rules.tick_us + 3, 2), np.int64)
    changed = False
    # Workers taken back since a job last made progress: ended, or stopped with something saved.
    reclaimed = progress_at = done_then = 0
    most_reclaimed = MOST_RECLAIMED + 16 * gpus.sum()

    # The end of a job that stays in its container matters to the ticks alone, unless others
    # wait for its GPUs: those it holds leave a count at the first tick that sees it gone.
    leaving = np.zeros(AHEAD, np.int64)
    ahead = AHEAD if gpus.sum() <= rules.serverless_limit else 0
    ticks = last = 0  # ticks so far; the last end of such a job
    fixed = not (rules.live and rules.adaptive)  # the threshold of a job in its container
    fall = largest_fall(rules)
    quiet = False  # the last event was a tick that changed nothing
    admitted = 0
    p = 0.0

    while True:
        time, code = next_market, MARKET
        if next_submit < n and submit[next_submit] <= time:
            time, code = submit[next_submit], SUBMIT | next_submit
        if ends[0, 0] and (ends[1, 0] < time or (ends[1, 0] == time and ends[1, 1] < code)):
            time, code = ends[1, 0], ends[1, 1]
        if soon[0, 0] and (soon[1, 0] < time or (soon[1, 0] == time and soon[1, 1] < code)):
            time, code = soon[1, 0], soon[1, 1]
        while running[0, 0] and jobs[STATE, running[1, 1]] != RUNNING:
            pop(running)
        if running[0, 0]:
            at = running[1, 0] + (threshold if rules.live else 0)
            at = max(at, now)
            if at < time or (at == time and code >= DEMOTE):
                time, code = at, DEMOTE | running[1, 1]
        if quiet:  # the last event was a tick
            quiet = False
            if next_tick + rules.tick_us < time and next_admit == admitted:
                until = steady_until(
                    demand, edges, due, now, p, ready, serverful_width, wishes, rules
                )
                passed = ticks_alike(min(until, time), next_tick, ticks, leaving, rules)
                next_tick += passed * rules.tick_us
                ticks += passed
        if next_tick < time:
            time, code = next_tick, TICK
        if changed and (time > now or code >= DISPATCH):
            changed = queue[0, 0] > 0 and gpus[queue[1, 1]] <= idle  # else no job can start
            if changed:
                time, code = now, DISPATCH
        if done == n and time >= last:
            break

        now = time
        kind, number = code & ~NUMBER, code & NUMBER
        if kind == SUBMIT:
            next_submit += 1
        elif kind == DEMOTE:
            pop(running)
            jobs[STATE, number] = AWAY
            jobs[SERVERLESS, number] = now - jobs[START, number]
            insert(soon, now + checkpoint[number], CHECKPOINT_DONE | number)
        elif kind == DISPATCH:
            changed = False
            while queue[0, 0]:
                job = queue[1, 1]
                if gpus[job] > idle:
                    break  # no job overtakes the head
                pop(queue)
                idle -= gpus[job]
                jobs[QUEUE, job] += now - jobs[SINCE, job]
                run = restore[job] + jobs[LEFT_US, job]
                jobs[SINCE, job], jobs[FINISH, job], jobs[STATE, job] = now, now + run, SERVED
                jobs[CHAIN, job] = start_gang(workers, job, gpus[job], run, cheapest)
                row = settled(demand, bucket[job], due, now)
                demand[row, RATE] += gpus[job]
                insert(ends, now + run, FINISH_SERVERFUL | job)
        elif kind == MARKET or kind == LEASE:
            first, end = 0, slots
            if kind == LEASE:
                pop(soon)
                first = workers[OFFER, number]
                end = first + (holder[first] == number)  # else it was let go before
            else:
                step += 1
                if step == market_start.size:
                    step = 0
                    round_start += rules.market_period_us
                following = rules.market_period_us
                if step + 1 < market_start.size:
                    following = market_start[step + 1]
                next_market = min(round_start + following, FOREVER)
                listed = market_first[step + 1] - market_first[step]
            moved = False
            for offer in range(first, end):
                worker = holder[offer]
                if worker < 0:
                    continue
                if kind == MARKET and offer < listed:
                    price = market_price[market_first[step] + offer]
                    if rules.in_force and price != workers[PRICE, worker]:
                        charge(workers, bills, worker, now)
                        paid += price - workers[PRICE, worker]
                        workers[PRICE, worker] = price
                        moved = True
                elif kind == LEASE or rules.reclaim:
                    if workers[READY, worker] > now:
                        starting -= 1
                    elif workers[IDLE, worker]:
                        workers[IDLE, worker] = 0
                        ready -= 1
                        idle -= 1
                    else:  # its whole gang stops, goes back to what is saved, and queues again
                        job = workers[JOB, worker]
                        ran = now - jobs[SINCE, job]
                        saving = checkpoint[job]
                        if kind == MARKET and (rules.grace_us == 0 or saving > rules.grace_us):
                            saving = -1
                        lost = stop_gang(
                            jobs,
                            workers,
                            job,
                            worker,
                            now,
                            restore[job],
                            saving,
                            cheapest,
                            most_expensive,
                            rules,
                        )
                        row = settled(demand, bucket[job], due, now)
                        demand[row, RATE] -= gpus[job]
                        demand[row, WORK] += gpus[job] * lost
                        key = submit[job] if rules.by_submission else deadline[job]
                        insert(queue, key, job)
                        if lost < ran:
                            reclaimed, progress_at = 0, now
                        idle += gpus[job] - 1
                        ready -= 1
                        changed = True
                    workers[RECLAIMED, worker] = kind == MARKET
                    reclaimed += 1
                    market_held -= 1
                    paid -= workers[PRICE, worker]
                    let_go(workers, bills, worker, now, holder, offers)
            if moved:
                list_anew(workers, cheapest, most_expensive)
        elif kind == TICK:
            next_tick = now + rules.tick_us
            serverless -= leaving[ticks % AHEAD]
            leaving[ticks % AHEAD] = 0
            ticks += 1
            due = fold_overdue(demand, edges, due, now)
            p, work, width = pressure(demand, edges, due, now, ready, rules)
            if rules.adaptive:
                threshold = next_threshold(threshold, p, rules)

            head = queue[1, 1] if queue[0, 0] else -1
            head_width, head_deadline = (gpus[head], deadline[head]) if head >= 0 else (0, 0)
            load = (p, work, width)
            workers_now = (ready, starting, idle)
            wanted, spare = rent_or_release(
                *load, *workers_now, serverful_width, head_width, head_deadline, wishes, now, rules
            )
            if done > done_then:
                reclaimed, progress_at, done_then = 0, now, done
            if reclaimed > most_reclaimed and (now - progress_at) // 2 > rules.patience_us:
                raise NeverDone("offers or leases end before any job on their workers gets on")
            if rentals + wanted > MOST_RENTALS:
                raise ValueError("the pool asks for more than 16 million rentals")
            if ready + starting + wanted > MOST_HELD:
                raise ValueError("the pool asks for more than 1,048,576 workers at once")
            if rentals + wanted > bills.size or notes == buffers.pressures.size:
                return -1, -1
            for _ in range(wanted):
                price = rules.conventional_price
                if offers[0, 0] and offers[1, 1] < listed:
                    offer = offers[1, 1]
                    pop(offers)
                    holder[offer] = rentals
                    price = market_price[market_first[step] + offer]
                    market_held += 1
                    delay = offer_startup[rentals_market % offer_startup.size]
                    rentals_market += 1
                else:
                    offer = -1
                    delay = conventional_startup[rentals_conventional % conventional_startup.size]
                    rentals_conventional += 1
                rent(workers, bills, rentals, offer, price, now, now + delay)
                paid += price
                insert(soon, now + delay, WORKER_READY | rentals)
                if offer >= 0 and rules.lease_us < FOREVER:
                    insert(soon, now + rules.lease_us, LEASE | rentals)
                rentals += 1
                starting += 1
            for _ in range(spare):
                worker = take_idle(workers, most_expensive, LISTED_DOWN)
                market_held -= workers[OFFER, worker] >= 0
                paid -= workers[PRICE, worker]
                let_go(workers, bills, worker, now, holder, offers)
                ready -= 1
                idle -= 1

            state = (
                *(now, threshold, queue[0, 0], ready, starting, idle, serverless),
                *(market_held, listed, paid),
            )
            notes = note(buffers.timeline, buffers.pressures, notes, state, p)

            # The ticks that follow may be like this one, for decades.
            quiet = wanted <= 0 and spare <= 0 and reclaimed <= most_reclaimed
            if rules.adaptive:
                quiet = quiet and next_threshold(threshold, p, rules) == threshold
            admitted = next_admit
        elif kind == FINISH_SERVERLESS:
            pop(ends)
            if jobs[STATE, number] == RUNNING:  # else it was demoted on the way
                jobs[STATE, number] = AWAY
                jobs[SERVERLESS, number] = service[number]
                jobs[FINISH, number] = now
                serverless -= gpus[number]
                done += 1
        elif kind == FINISH_SERVERFUL:
            pop(ends)
            if jobs[STATE, number] == SERVED and jobs[FINISH, number] == now:  # else it was stopped
                jobs[STATE, number] = AWAY
                jobs[LOST, number] += restore[number]
                done += 1
                row = settled(demand, bucket[number], due, now)
                demand[row, RATE] -= gpus[number]
                demand[row, WIDTH] -= gpus[number]
                serverful_width -= gpus[number]
                idle += gpus[number]
                end_gang(workers, jobs[CHAIN, number], cheapest, most_expensive)
                changed = True
        else:
            pop(soon)
            if kind == CHECKPOINT_DONE:
                if gpus[number] > MOST_GANG:
                    raise TooWide("a job would move to more than 100,000 workers of one GPU")
                serverless -= gpus[number]
                jobs[SINCE, number] = now
                key = submit[number] if rules.by_submission else deadline[number]
                insert(queue, key, number)
                serverful_width += gpus[number]
                row = settled(demand, bucket[number], due, now)
                jobs[LEFT_US, number] = service[number] - jobs[SERVERLESS, number]
                demand[row, WORK] += gpus[number] * (restore[number] + jobs[LEFT_US, number])
                demand[row, WIDTH] += gpus[number]
                changed = True
            elif workers[RELEASE, number] < 0:  # WORKER_READY; else it was reclaimed before
                starting -= 1
                ready += 1
                idle += 1
                list_idle(workers, number, cheapest, most_expensive)
                changed = True

        # Containers start in the order of submission.
        while next_admit < next_submit and serverless + gpus[next_admit] <= rules.serverless_limit:
            job = next_admit
            next_admit += 1
            serverless += gpus[job]
            if now > submit[job]:
                jobs[QUEUE, job] = now - submit[job]
            begin = now + startup[job]
            end = start_container(
                *(jobs, job, gpus[job], service[job], begin, threshold, next_tick, ticks),
                *(leaving, ahead, running, ends, fixed, fall, rules),
            )
            if end >= 0:
                last = max(last, end)
                done += 1

    release_all(workers, bills, rentals, max(now, last))
    return rentals, notes
