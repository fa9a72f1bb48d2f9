"""The results that Allpass' kernel and its oracle must agree on, as plain lists."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from support_allpass_twin import Twin

from gpuplan.simkit.allpass.allpass_run import overheads_us
from gpuplan.simkit.renting.market import NANOS
from gpuplan.simkit.time import MICROS_PER_HOUR


def run_twin(workload, parameters, draws):
    """Return everything that must agree with the kernel, as plain lists."""
    twin = Twin(workload, parameters, draws).run()
    return SimpleNamespace(
        jobs=[(j.start, j.finish, j.serverless, j.queue, j.demoted) for j in twin.jobs],
        vain=[j.vain for j in twin.jobs],
        rentals=[(w.offer, w.request, w.ready, w.release, w.busy) for w in twin.workers],
        bills=[
            (w.asked / NANOS, w.bill / NANOS / MICROS_PER_HOUR, w.reclaimed) for w in twin.workers
        ],
        timeline=twin.timeline,
        pressures=twin.pressures,
        dispatches=twin.dispatches,
    )


def as_lists(run):
    """Return the results that the kernel and `run_twin` must agree on, as plain lists."""
    rentals, line = run.rentals, run.timeline
    in_vain_us = run.demotion_us - overheads_us(run.workload, run.parameters)[0]
    return {
        "jobs": rows(run.start_us, run.finish_us, run.serverless_us, run.queue_us, run.demoted),
        "rentals": rows(
            rentals.offer,
            rentals.request_us,
            rentals.ready_us,
            rentals.release_us,
            rentals.busy_us,
        ),
        "timeline": rows(
            line.time_us,
            line.threshold_us,
            line.queued,
            line.ready,
            line.starting,
            line.idle,
            line.serverless,
            line.marketplace,
            line.offers,
            np.rint(line.paid_usd_per_h * NANOS).astype(np.int64),
        ),
        "pressures": line.pressure.tolist(),
        "vain": np.where(run.demoted, in_vain_us, 0).tolist(),
        "bills": rows(rentals.price, rentals.metered_usd, rentals.reclaimed),
    }


def rows(*columns):
    """Return arrays of one length as a list of tuples."""
    return list(zip(*(column.tolist() for column in columns), strict=True))
