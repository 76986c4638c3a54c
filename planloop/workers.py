"""The processors behind `planloop process`: each reads the log from where it stopped last time.

`scores` assembles trajectories and scores groups, `curation` makes training records,
`competence` counts, `warehouse` fills the tables, `archive` keeps the log. One process owns
each of them at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from consumers.archive import Archiver
from consumers.curation import CurationFold
from consumers.sink import WarehouseSink
from infra.checkpoints import FileCheckpoints
from infra.log import Producer, Reader, partitions_of
from infra.objects import ObjectStore
from infra.settings import Endpoints, Settings
from infra.warehouse import open_warehouse
from streams.competence import CompetenceFold
from streams.engine import LocalEngine
from streams.fold import Fold
from streams.groups import GroupFold

FOLDS: dict[str, Callable[[], Fold[Any]]] = {
    "scores": GroupFold,
    "curation": CurationFold,
    "competence": CompetenceFold,
}
