"""Writing blocks to tables on the real engine, and comparing and exchanging whole sets of them."""

from collections.abc import Iterator, Sequence

import pytest

from consumers.blocks import Blocks
from consumers.tables import TABLES
from consumers.writer import (
    Checksum,
    TableWriter,
    checksum,
    create_beside,
    drop_beside,
    exchange,
    insert,
)
from infra.log import Record
from infra.settings import Endpoints
from infra.warehouse import Warehouse
from tests.consumers.history import on_the_log, rollouts, whole
from tests.consumers.rollouts import as_records, done
from tests.warehouses import fresh_database


@pytest.fixture
def warehouse(stack: Endpoints) -> Iterator[Warehouse]:
    with fresh_database(stack.warehouse_url) as fresh:
        yield fresh


def _write(warehouse: Warehouse, records: Sequence[Record]) -> None:
    writer = TableWriter(warehouse)
    writer.write(records)
    writer.flush()


def _count(warehouse: Warehouse, table: str) -> int:
    return warehouse.rows(f"SELECT count() FROM {table}")[0][0]


def test_a_block_that_is_sent_again_is_dropped_by_its_token(warehouse: Warehouse) -> None:
    blocks = Blocks()
    cut = [*blocks.add(as_records(rollouts())), *blocks.drain()]
    for block in cut * 3:
        insert(warehouse, block)
    assert (
        _count(warehouse, "event_facts")
        == _count(warehouse, "events")
        == sum(b.events for b in cut)
    )


def test_equal_rows_under_different_tokens_are_not_taken_for_a_retry(warehouse: Warehouse) -> None:
    """What only looks the same is kept: identity is the event's, not the content's."""
    first, second = (done("g1", name, text="same").events for name in ("e1", "e2"))
    _write(warehouse, as_records(first))
    _write(warehouse, as_records(second, first_offset=100))
    assert _count(warehouse, "events") == len(first) + len(second)


def test_an_emptied_table_takes_its_old_blocks_again(warehouse: Warehouse) -> None:
    _write(warehouse, as_records(rollouts()))
    before = checksum(warehouse, "event_facts")
    warehouse.execute("TRUNCATE TABLE event_facts")
    _write(warehouse, as_records(rollouts()))
    assert checksum(warehouse, "event_facts") == before


def test_uniq_exact_counts_what_uniq_estimates(warehouse: Warehouse) -> None:
    """Why checksums count with uniqExact: the other one is off for half a million."""
    ((exact, estimate),) = warehouse.rows(
        "SELECT uniqExact(number), uniq(number) FROM numbers(500000)"
    )
    assert exact == 500_000 != estimate


def test_a_checksum_sees_every_difference_and_no_order(warehouse: Warehouse) -> None:
    def of(name: str, values: Sequence[tuple[int, int | None, float]]) -> Checksum:
        warehouse.execute(
            f"CREATE TABLE {name}"
            " (key UInt64, some Nullable(UInt64), value Float64, version UInt64)"
            " ENGINE = ReplacingMergeTree(version) ORDER BY key"
        )
        for key, some, value in values:
            columns = {"key": [key], "some": [some], "value": [value], "version": [key % 7]}
            warehouse.insert(name, columns, f"{name}{key}")
        return checksum(warehouse, name)

    reference = of("a", [(1, None, 0.1 + 0.2), (2, 0, 1.0)])
    assert reference.rows == 2
    assert of("b", [(2, 0, 1.0), (1, None, 0.1 + 0.2)]) == reference
    assert of("c", [(1, 0, 0.1 + 0.2), (2, 0, 1.0)]) != reference
    assert of("d", [(1, None, 0.3), (2, 0, 1.0)]) != reference
    assert of("e", [(1, None, 0.1 + 0.2), (2, 0, 1.0), (3, 0, 1.0)]) != reference


def test_a_second_set_of_tables_is_compared_and_exchanged(warehouse: Warehouse) -> None:
    events = whole()
    _write(warehouse, on_the_log(events[:-6]))
    create_beside(warehouse)
    writer = TableWriter(warehouse, "_next")
    writer.write(on_the_log(events[:-6], per_record=3))
    writer.flush()
    assert [checksum(warehouse, f"{table}_next") for table in TABLES] == [
        checksum(warehouse, table) for table in TABLES
    ]
    assert _count(warehouse, "events") == len(events) - 6
    writer.write(on_the_log(events[-6:], first_offset=200))
    writer.flush()
    exchange(warehouse)
    assert _count(warehouse, "events") == len(events)
    drop_beside(warehouse)
    assert _count(warehouse, "events") == len(events)
