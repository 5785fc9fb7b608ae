"""The training study's results and the campaign's as they are committed, their pages and figures."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from dare_reward.errors import ConfigError

from .page.campaign import campaign_page, label_fates
from .page.figures import draw_campaign, draw_training
from .page.outcomes import Study
from .page.report import RESAMPLES, training_page
from .page.summary import restore, summarise, write_summary
from .results import Place, read, write, write_sums
from .training.records import lines, locked, parse, read_records

COMMAND = "dare-reward study train"


def pack(place: Place) -> list[Path]:
    """Compress the work file, remove it, then write what follows from it. Returns what was written."""
    with locked(place.work.parent):  # a run may end while this packs
        records = read_records(*place.records)
        write(place.packed, lines(records))
        place.work.unlink(missing_ok=True)  # another process may have packed it
        if summary := [place.summary] if place.study == "training" else []:
            write(place.summary, write_summary(summarise(records)))
        sums = write_sums(place.packed.parent)
    return [place.packed, *summary, sums, *publish(place)]


def publish(place: Place) -> list[Path]:
    """Write the page, and its figures if matplotlib is there."""
    if place.study == "campaign":
        page, records = place.page("campaign-results"), read_records(*place.records)
        real_model = place.summary.with_name("real-model.summary.json")
        labels = label_fates(json.loads(read(real_model))) if real_model.exists() else {}
        write(page, campaign_page(records, labels=labels, resamples=RESAMPLES))
        draw = partial(draw_campaign, page.parent, records)
    else:
        page, study = place.page("training"), study_at(place)
        write(page, training_page(study))
        draw = partial(draw_training, page.parent, study)
    try:
        return [page, *draw()]
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return [page]


def study_at(place: Place) -> Study:
    """From the work file while there is one, else from the summary."""
    if place.work.exists():
        return Study(parse(read_records(*place.records)), command=COMMAND, resamples=RESAMPLES)
    return restore(json.loads(read(place.summary)), command=COMMAND)
