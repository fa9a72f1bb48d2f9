"""Compare changes of a Slurm site: what each costs and does to waits, and the cheapest."""

from __future__ import annotations

from dataclasses import replace

from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.requests.options import OptionsRequest
from gpuplan.planner.site.options import OptionsResults, options_of
from gpuplan.planner.site.pairs import effects_of_pairs, pairs_of
from gpuplan.planner.site.site_sizes import held_jobs, held_note
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.whatif import calibration_warnings
from gpuplan.planner.twin.score import left_out_notes


def options(request: OptionsRequest) -> Answer[OptionsRequest, OptionsResults]:
    """Replay a log with and without each option, and price them.

    Raises:
        InputError: a file cannot be used, or the log names a partition that the settings lack.
        UsageError: no option is given, one cannot be made, or a GPU that costs has no price.
    """
    request.check()
    document, calibration = request.site()[0], request.calibration()
    log = read_site_log(request.trace, calibration.time_zone)
    prices = Prices.read(request.prices, calibration.time_zone).at(log.end_us)
    changes = [
        replace(change.settled(document, log), name=change.name) for change in request.changes()
    ]
    chosen = request.site()[1].level
    pairs = pairs_of(log, document, changes, calibration, chosen=chosen, with_held=True)
    effects = effects_of_pairs(pairs, calibration, by=request.by or "account", all_parts=True)
    held = held_jobs(effects.work)
    compared = options_of(effects, changes, document, prices, request.targets(), request.by)
    warnings = (*calibration_warnings(request, log), *effects.unused)
    lost = {option.name: sum(option.never_start.values()) for option in compared.options}
    warnings += tuple(
        f"{name}: {count:,} jobs that start today never start with it"
        for name, count in lost.items()
        if count
    )
    return Answer(
        request=request,
        results=compared,
        inputs=(InputFile(str(log.path), log.sha256, log.jobs.height), *prices.inputs),
        warnings=warnings,
        notes=(
            *dict.fromkeys(note for change in changes for note in change.notes),
            *effects.work.notes,
            *left_out_notes(effects.work, effects.work.scored | held),
            *held_note(held, "under every option"),
            *(
                f"{option.name}: {option.requeued_jobs:,} jobs go on as new ones; their waits are "
                "those of all parts, and it is assumed that they lose no work"
                for option in compared.options
                if option.requeued_jobs
            ),
            "waits are the log's plus the effect of each option, of the jobs that are replayed, "
            "from when each is eligible: characterize counts all jobs from submission; whether "
            "users would submit otherwise is not modeled",
        ),
    )
