"""The event loop of Allpass: arrays in, arrays out, time in whole microseconds.

Source: "Allpass", sections 3.2 and 3.3, Algorithms 1 and 2, as made precise in ``docs/allpass.md``.
Events are taken in the order (time, kind, number of job or worker); `KINDS` is the order of kinds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.allpass.demand import RATE, WIDTH, WORK, fold_overdue, pressure, settle
from gpuplan.simkit.allpass.pool import (
    ASKED,
    BUSY,
    IDLE,
    JOB,
    LISTED_DOWN,
    LISTED_UP,
    NEXT,
    OFFER,
    PRICE,
    PRICED,
    READY,
    RECLAIMED,
    RELEASE,
    REQUEST,
    charge,
    let_go,
    list_anew,
    list_idle,
    take_idle,
)
from gpuplan.simkit.allpass.scalers import next_threshold, rent_or_release
from gpuplan.simkit.heap import insert, larger, new_heap, pop
from gpuplan.simkit.jit import kernel
from gpuplan.simkit.tables import grown
from gpuplan.simkit.workload import FOREVER

KINDS = (
    "finish_serverless",  # a job ends in its container
    "finish_serverful",  # a job ends on its workers, which fall idle
    "demote",  # a job has used up the threshold: its checkpoint begins
    "worker_ready",
    "checkpoint_done",  # the container is gone, the job enters the serverful queue
    "submit",
    "container_ready",  # a job starts to run
    "market",  # offers come, go or change their price
    "dispatch",  # the serverful queue is served, once per instant at which anything changed
    "tick",  # both scalers act
)
(
    FINISH_SERVERLESS,
    FINISH_SERVERFUL,
    DEMOTE,
    WORKER_READY,
    CHECKPOINT_DONE,
    SUBMIT,
    CONTAINER_READY,
    MARKET,
    DISPATCH,
    TICK,
) = (kind << 40 for kind in range(len(KINDS)))
NUMBER = (1 << 40) - 1  # the part of an event code that says which job or worker

# Columns of the table of jobs. SINCE is when it began to wait, or its stay on workers; LEFT_US the
# service left at that time; VAIN restores, and work that was done on workers and lost.
START, FINISH, SERVERLESS, QUEUE, SINCE, CHAIN, STATE, LEFT_US, VAIN = range(9)
NEW, RUNNING, LEFT, SERVED = range(4)  # states: not yet in a container, there, gone, on workers

MOST_RENTALS = 1 << 24  # 2 GB of them

TIMELINE = (
    *("time", "threshold", "queued", "ready", "starting", "idle", "serverless"),
    *("marketplace", "offers", "paid"),
)


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
) -> Any:
    """Run every job to its end.

    Args:
        submit, service, gpus, deadline, startup: one value per job, shape (n,); ``startup`` is the
            drawn start-up time of its container.
        bucket: row of the table of demand that a job counts in; ``edges[bucket]`` is its deadline
            rounded up to a multiple of every window's and tick's length.
        edges: ascending, one per bucket.
        checkpoint, restore: times of each job, shape (n,).
        market_start, market_first: time of each step of the market, and where its offers begin.
        market_price: their prices, ascending within a step, billionths of a dollar.
        offer_startup, conventional_startup: drawn start-up times; the k-th rental from a kind of
            provider takes entry k, counted round.
        rules: `gpuplan.simkit.allpass.scalers.Rules`.

    Returns:
        Table of jobs, table of workers, their bills by price and time held (billionths of a dollar
        x microseconds / hour), time line (columns `TIMELINE`; ``paid`` in billionths of a dollar
        per hour) of the ticks at which it changed, and the pressure at those.

    Raises:
        ValueError: there would be more than `MOST_RENTALS` rentals.
    """
    n = submit.size
    jobs = np.zeros((n, 9), np.int64)
    # Rows are cleared when they are rented: those never used take no memory, and few runs grow it.
    rows = max(64, 2 * n)
    workers, bills = np.empty((rows, 14), np.int64), np.empty((rows, 1), np.float64)
    timeline = np.zeros((256, 10), np.int64)
    pressures = np.zeros((256, 1), np.float64)
    demand = np.zeros((edges.size + 1, 4), np.int64)
    running, queue = new_heap(n), new_heap(n)
    cheapest, dearest = new_heap(workers.shape[0]), new_heap(workers.shape[0])
    events = new_heap()
    slots = 0
    for step in range(market_start.size):
        slots = max(slots, market_first[step + 1] - market_first[step])
    offers = new_heap(slots)
    for offer in range(slots):
        insert(offers, offer, offer)
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

    while done < n:
        # Room for what one event adds: a job per idle worker, and those let into containers.
        while events[0, 0] + idle + (next_submit - next_admit) + 2 >= events.shape[0]:
            events = larger(events)
        time, code = next_tick, TICK
        if next_market <= time:
            time, code = next_market, MARKET
        if next_submit < n and submit[next_submit] <= time:
            time, code = submit[next_submit], SUBMIT | next_submit
        if events[0, 0] and (events[1, 0] < time or (events[1, 0] == time and events[1, 1] < code)):
            time, code = events[1, 0], events[1, 1]
        while running[0, 0] and jobs[running[1, 1], STATE] != RUNNING:
            pop(running)
        if running[0, 0]:
            at = running[1, 0] + (threshold if rules.live else 0)
            at = max(at, now)
            if at < time or (at == time and code >= DEMOTE):
                time, code = at, DEMOTE | running[1, 1]
        if changed and (time > now or code >= DISPATCH):
            changed = queue[0, 0] > 0 and gpus[queue[1, 1]] <= idle  # else nobody can start
            if changed:
                time, code = now, DISPATCH

        now = time
        kind, number = code & ~NUMBER, code & NUMBER
        if kind == SUBMIT:
            next_submit += 1
        elif kind == DEMOTE:
            pop(running)
            jobs[number, STATE] = LEFT
            jobs[number, SERVERLESS] = now - jobs[number, START]
            insert(events, now + checkpoint[number], CHECKPOINT_DONE | number)
        elif kind == DISPATCH:
            changed = False
            while queue[0, 0]:
                job = queue[1, 1]
                if gpus[job] > idle:
                    break  # nobody overtakes the head
                pop(queue)
                idle -= gpus[job]
                jobs[job, QUEUE] += now - jobs[job, SINCE]
                run = restore[job] + jobs[job, LEFT_US]
                jobs[job, SINCE], jobs[job, FINISH], jobs[job, STATE] = now, now + run, SERVED
                chain = -1
                for _ in range(gpus[job]):
                    worker = take_idle(workers, cheapest, LISTED_UP)
                    workers[worker, BUSY] += run
                    workers[worker, JOB], workers[worker, NEXT] = job, chain
                    chain = worker
                jobs[job, CHAIN] = chain
                row = bucket[job] if bucket[job] >= due else edges.size
                settle(demand, row, now)
                demand[row, RATE] += gpus[job]
                insert(events, now + run, FINISH_SERVERFUL | job)
        elif kind == MARKET:
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
            for offer in range(slots):
                worker = holder[offer]
                if worker < 0:
                    continue
                if offer < listed:
                    price = market_price[market_first[step] + offer]
                    if rules.in_force and price != workers[worker, PRICE]:
                        charge(workers, bills, worker, now)
                        paid += price - workers[worker, PRICE]
                        workers[worker, PRICE] = price
                        moved = True
                elif rules.reclaim:
                    if workers[worker, READY] > now:
                        starting -= 1
                    elif workers[worker, IDLE]:
                        workers[worker, IDLE] = 0
                        ready -= 1
                        idle -= 1
                    else:  # its whole gang stops, goes back to what is saved, and queues again
                        job = workers[worker, JOB]
                        ran = now - jobs[job, SINCE]
                        kept = max(0, ran - restore[job])
                        if rules.save_every_us:
                            kept -= kept % rules.save_every_us
                        jobs[job, LEFT_US] -= kept
                        jobs[job, VAIN] += ran - kept
                        row = bucket[job] if bucket[job] >= due else edges.size
                        settle(demand, row, now)
                        demand[row, RATE] -= gpus[job]
                        demand[row, WORK] += gpus[job] * (ran - kept)
                        member = jobs[job, CHAIN]
                        while member >= 0:
                            workers[member, BUSY] -= jobs[job, FINISH] - now
                            if member != worker:
                                list_idle(workers, member, cheapest, dearest)
                                idle += 1
                            member = workers[member, NEXT]
                        jobs[job, STATE], jobs[job, SINCE] = LEFT, now
                        key = submit[job] if rules.by_submission else deadline[job]
                        insert(queue, key, job)
                        ready -= 1
                        changed = True
                    workers[worker, RECLAIMED] = 1
                    market_held -= 1
                    paid -= workers[worker, PRICE]
                    let_go(workers, bills, worker, now, holder, offers)
            if moved:
                list_anew(workers, cheapest, dearest)
        elif kind == TICK:
            next_tick = now + rules.tick_us
            due = fold_overdue(demand, edges, due, now)
            p, work, width = pressure(demand, edges, due, now, ready, rules)
            if rules.adaptive:
                threshold = next_threshold(threshold, p, rules)

            head = queue[1, 1] if queue[0, 0] else -1
            wanted, spare = rent_or_release(
                p,
                work,
                width,
                ready,
                starting,
                idle,
                serverful_width,
                gpus[head] if head >= 0 else 0,
                deadline[head] if head >= 0 else 0,
                wishes,
                now,
                rules,
            )
            if rentals + wanted > MOST_RENTALS:
                raise ValueError("the pool asks for more than 16 million rentals")
            backlog = next_submit - next_admit
            while events[0, 0] + wanted + backlog + 1 >= events.shape[0]:
                events = larger(events)
            for _ in range(wanted):
                if rentals == workers.shape[0]:
                    workers, bills = grown(workers), grown(bills)
                    cheapest, dearest = larger(cheapest), larger(dearest)
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
                for column in range(workers.shape[1]):
                    workers[rentals, column] = 0
                bills[rentals, 0] = 0.0
                workers[rentals, OFFER] = offer
                workers[rentals, REQUEST] = now
                workers[rentals, READY] = now + delay
                workers[rentals, RELEASE] = -1
                workers[rentals, ASKED] = workers[rentals, PRICE] = price
                workers[rentals, PRICED] = now
                paid += price
                insert(events, now + delay, WORKER_READY | rentals)
                rentals += 1
                starting += 1
            for _ in range(spare):
                worker = take_idle(workers, dearest, LISTED_DOWN)
                market_held -= workers[worker, OFFER] >= 0
                paid -= workers[worker, PRICE]
                let_go(workers, bills, worker, now, holder, offers)
                ready -= 1
                idle -= 1

            if notes == timeline.shape[0]:
                timeline, pressures = grown(timeline), grown(pressures)
            timeline[notes, 0], timeline[notes, 1] = now, threshold
            timeline[notes, 2], timeline[notes, 3] = queue[0, 0], ready
            timeline[notes, 4], timeline[notes, 5] = starting, idle
            timeline[notes, 6], timeline[notes, 7] = serverless, market_held
            timeline[notes, 8], timeline[notes, 9] = listed, paid
            pressures[notes, 0] = p
            # A tick that changed nothing is written over: an overload can last for decades.
            news = notes == 0 or pressures[notes - 1, 0] != p
            for column in range(1, 10):
                news = news or timeline[notes, column] != timeline[notes - 1, column]
            notes += news
        else:
            pop(events)
            if kind == FINISH_SERVERLESS:
                if jobs[number, STATE] == RUNNING:  # else it was demoted on the way
                    jobs[number, STATE] = LEFT
                    jobs[number, SERVERLESS] = service[number]
                    jobs[number, FINISH] = now
                    serverless -= gpus[number]
                    done += 1
            elif kind == CONTAINER_READY:
                jobs[number, STATE] = RUNNING
                jobs[number, START] = now
                leaves = False  # for sure: it has used up its threshold before that can change
                if gpus[number] <= rules.capacity and threshold < FOREVER:
                    insert(running, jobs[number, SINCE], number)
                    until = jobs[number, SINCE] + (threshold if rules.live else 0)
                    fixed = not (rules.live and rules.adaptive)
                    leaves = until < now + service[number] and (fixed or until <= next_tick)
                if not leaves:
                    insert(events, now + service[number], FINISH_SERVERLESS | number)
            elif kind == CHECKPOINT_DONE:
                serverless -= gpus[number]
                jobs[number, SINCE] = now
                key = submit[number] if rules.by_submission else deadline[number]
                insert(queue, key, number)
                serverful_width += gpus[number]
                row = bucket[number] if bucket[number] >= due else edges.size
                settle(demand, row, now)
                jobs[number, LEFT_US] = service[number] - jobs[number, SERVERLESS]
                demand[row, WORK] += gpus[number] * (restore[number] + jobs[number, LEFT_US])
                demand[row, WIDTH] += gpus[number]
                changed = True
            elif kind == WORKER_READY:
                if workers[number, RELEASE] < 0:  # else it was reclaimed before
                    starting -= 1
                    ready += 1
                    idle += 1
                    list_idle(workers, number, cheapest, dearest)
                    changed = True
            elif jobs[number, STATE] == SERVED and jobs[number, FINISH] == now:  # FINISH_SERVERFUL
                jobs[number, STATE] = LEFT
                jobs[number, VAIN] += restore[number]
                done += 1
                row = bucket[number] if bucket[number] >= due else edges.size
                settle(demand, row, now)
                demand[row, RATE] -= gpus[number]
                demand[row, WIDTH] -= gpus[number]
                serverful_width -= gpus[number]
                idle += gpus[number]
                worker = jobs[number, CHAIN]
                while worker >= 0:
                    list_idle(workers, worker, cheapest, dearest)
                    worker = workers[worker, NEXT]
                changed = True

        # Containers are given in the order of submission.
        while next_admit < next_submit and serverless + gpus[next_admit] <= rules.serverless_limit:
            serverless += gpus[next_admit]
            jobs[next_admit, QUEUE] = now - submit[next_admit]
            begin = now + startup[next_admit]
            # The key under which it waits for its demotion: `running` adds the rest when it looks.
            jobs[next_admit, SINCE] = begin if rules.live else begin + threshold
            insert(events, begin, CONTAINER_READY | next_admit)
            next_admit += 1

    for worker in range(rentals):
        if workers[worker, RELEASE] < 0:
            charge(workers, bills, worker, now)
            workers[worker, RELEASE] = now
    kept = timeline[:notes].copy(), pressures[:notes, 0].copy()
    return jobs, workers[:rentals], bills[:rentals, 0], kept[0], kept[1]
