"""The measured process of planloop's engine, built as `planloop process` builds it.

The clock runs from the moment when partitions are assigned to the end of the last checkpoint.
Mode `groups` is GroupFold alone, `all` what the workers `folds` and `competence` run.
"""

from dataclasses import replace
from pathlib import Path

from consumers.curation import CurationFold
from infra.settings import Settings
from planloop.workers import Site, engine
from schemas.topics import GROUPS, ROLLOUTS
from streams.competence import CompetenceFold
from streams.groups import GroupFold
from tests.bench.stopwatch import Stopwatch, Task, task


def main(given: Task) -> None:
    settings = Settings(
        state=Path(given.state), kafka_bootstrap=None, s3_endpoint=None, warehouse_url=None
    )
    site = Site(settings, settings.endpoints())
    topic = replace(ROLLOUTS, name=given.topic)
    folds = [GroupFold()] if given.mode == "groups" else [GroupFold(), CurationFold()]
    clock = Stopwatch()
    with engine(site, given.output, topic, folds) as running:
        clock.start()
        running.run(until_end=False, stop=lambda: running.progress().records >= given.records)
        if given.mode == "all":
            with engine(site, f"{given.output}-competence", GROUPS, [CompetenceFold()]) as counting:
                counting.run(until_end=True)
        clock.stop()
    clock.report()


if __name__ == "__main__":
    main(task())
