"""The warehouse sink: every topic of the log, block by block, into the tables.

Where it goes on is kept in the warehouse itself, in `positions`, and written after the
rows. A crash in between repeats a block: cut by the records, it has the same token and is
dropped; drained early, it may be cut otherwise, and its rows count once by their identity.
Deleting the warehouse deletes the positions with it, and the next run writes everything
again.

While the warehouse is away the sink pauses its partitions, keeps the blocks in hand and
tries again. No number of attempts makes it drop anything.
"""

import time
from collections.abc import Callable, Sequence

from consumers.blocks import Blocks
from consumers.delivery import CONSUMER, Delivered, Delivery
from consumers.lag import Lag, write_lag
from infra.log import Producer, Reader, end_offsets, ensure_topics, partitions_of
from infra.warehouse.protocol import Warehouse
from schemas.errors import InfrastructureAwayError
from schemas.topics import CATALOGUE, DEAD_LETTERS, Topic

FOLLOW_INTERVAL_S = 1.0
"""How long a row may wait for its block to fill while the log is followed."""

LAG_INTERVAL_S = 5.0


class WarehouseSink:
    """Feeds the warehouse from the log.

    `store_object` keeps refused bytes that are too long for a dead letter. `patience_s` is how
    long the warehouse may be away before `run` gives up with InfrastructureAwayError; nothing is
    lost by that, the next run goes on from the last position.
    """

    def __init__(
        self,
        bootstrap: str,
        warehouse: Warehouse,
        store_object: Callable[[str, bytes], object],
        topics: Sequence[Topic] = CATALOGUE,
        *,
        patience_s: float = float("inf"),
    ) -> None:
        self._bootstrap = bootstrap
        self._warehouse = warehouse
        self._store_object = store_object
        self._topics = topics
        self._patience_s = patience_s

    def run(
        self,
        until_end: bool = True,
        on_progress: Callable[[Delivered], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Delivered:
        """Write what the log has and the warehouse lacks, or follow the log until `stop` says so.

        Returns what was written in this run, with everything durable that was read. Dead letters
        that the sink adds to the log are written too before it ends.
        """
        ensure_topics(self._bootstrap, self._topics)
        positions = self._positions()
        producer = Producer(self._bootstrap)
        reader = Reader(self._bootstrap, positions)
        delivery = Delivery(
            self._warehouse, producer, self._store_object, positions, self._patience_s
        )
        report = on_progress or (lambda _: None)
        try:
            while True:
                self._pump(reader, delivery, until_end, report, stop)
                if stop() or not until_end or not self._letters_unread(delivery.delivered):
                    break
            self._write_lag(reader, delivery)
            return delivery.delivered
        finally:
            delivery.close()
            reader.close()
            producer.close()

    def _pump(
        self,
        reader: Reader,
        delivery: Delivery,
        until_end: bool,
        report: Callable[[Delivered], None],
        stop: Callable[[], bool],
    ) -> None:
        """Read and deliver to the end of the log or until `stop`, then deliver what is open."""
        places = list(delivery.delivered.positions)
        blocks = Blocks(self._topics)
        paused = False
        drained = lagged = time.monotonic()
        while not stop():
            delivery.step(0.1 if delivery.behind and not delivery.away else 0.0)
            report(delivery.delivered)
            if delivery.behind and not delivery.away:
                continue
            if delivery.away != paused:
                paused = delivery.away
                (reader.pause if paused else reader.resume)(places)
            records = reader.poll(timeout_s=0.2)
            delivery.add(blocks.add(records))
            if until_end and not paused and not records and reader.at_end:
                break
            now = time.monotonic()
            if not until_end and now - drained >= FOLLOW_INTERVAL_S:
                delivery.add(blocks.drain())
                drained = now
            if now - lagged >= LAG_INTERVAL_S and not paused:
                self._write_lag(reader, delivery)
                lagged = now
        delivery.add(blocks.drain())
        while not delivery.idle and not (delivery.away and stop()):
            delivery.step(0.1)
            report(delivery.delivered)
        if paused:
            reader.resume(places)

    def _positions(self) -> dict[tuple[str, int], int]:
        """The next offset of every partition; 0 where nothing was written yet."""
        kept = {
            (topic, partition): offset
            for topic, partition, offset in self._warehouse.rows(
                "SELECT topic, partition, max(next_offset) FROM positions"
                " WHERE consumer = {consumer:String} GROUP BY topic, partition",
                {"consumer": CONSUMER},
            )
        }
        return {
            where: kept.get(where, 0)
            for topic in self._topics
            for where in ((topic.name, p) for p in partitions_of(self._bootstrap, topic.name))
        }

    def _letters_unread(self, delivered: Delivered) -> bool:
        """Whether dead letters that this run wrote are still ahead of it."""
        if not delivered.refused or DEAD_LETTERS not in self._topics:
            return False
        ends = end_offsets(self._bootstrap, DEAD_LETTERS.name)
        return any(
            delivered.positions[DEAD_LETTERS.name, partition] < end
            for partition, end in ends.items()
        )

    def _write_lag(self, reader: Reader, delivery: Delivery) -> None:
        done = delivery.delivered
        try:
            write_lag(
                self._warehouse,
                CONSUMER,
                {
                    where: Lag(done.positions[where], end, done.times.get(where, 0))
                    for where, (_, end) in reader.lag().items()
                },
            )
        except InfrastructureAwayError:
            return
