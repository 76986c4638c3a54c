"""The device SDK: what an app or device team calls to put its episodes on the log.

    with Device(bootstrap="broker:9092", tenant="acme", producer="demo-app") as device:
        with device.episode("group-7", "episode-1", task_id="set-alarm") as episode:
            episode.act(tool="alarm.create", arguments={"time": "07:30"}, call_id="c1")
            episode.observe("created", tool="alarm.create", call_id="c1")
            episode.verify(success=True, progress=1.0, verifier="alarm-app")
            episode.end()

Events are validated before they are taken (EventRefusedError), kept on disk until the log
acknowledges them (SpoolFullError at the bound), and numbered without gaps, also across
restarts of the process. Nothing here prints, logs or raises with what an event contains.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from producers.delivery import Delivery, DeliveryReport
from producers.device_episode import Episode, now
from producers.outbox import Outbox, typed
from producers.spool import Spool
from producers.transports import HttpTransport, KafkaTransport
from schemas.errors import InputError
from schemas.events import Stream
from schemas.rollout_pb2 import DATA_SPLIT_TRAIN, DataSplit, Schedule


class Device:
    """A producer with an outbox of its own. Safe to call from several threads.

    Exactly one of `bootstrap` (host:port of a Kafka broker) and `gateway` (its URL, with the
    tenant's `token`) is given. `spool_dir` belongs to this device alone. Batches leave when
    `batch_events` wait, or `linger_s` after the first one came. `on_delivery` is called from
    the sending thread with a DeliveryReport after every attempt.
    """

    def __init__(
        self,
        *,
        tenant: str,
        producer: str,
        bootstrap: str | None = None,
        gateway: str | None = None,
        token: str = "",
        producer_version: str = "",
        policy_version: str = "",
        harness_version: str = "",
        schedule_version: str = "",
        spool_dir: Path | str = ".planloop-device",
        max_spool_bytes: int = 64 * 1024 * 1024,
        batch_events: int = 200,
        batch_bytes: int = 512 * 1024,
        linger_s: float = 0.2,
        timeout_s: float = 5.0,
        on_delivery: Callable[[DeliveryReport], object] | None = None,
    ) -> None:
        if (bootstrap is None) == (gateway is None):
            raise InputError("a device sends to a broker or to a gateway", "give one of the two")
        transport = (
            KafkaTransport(bootstrap, timeout_s)
            if bootstrap is not None
            else HttpTransport(gateway or "", token, timeout_s)
        )
        self._envelope: dict[str, Any] = {
            "tenant": tenant,
            "producer": producer,
            "producer_version": producer_version,
            "policy_version": policy_version,
            "harness_version": harness_version,
            "schedule_version": schedule_version,
        }
        self._spool = Spool(Path(spool_dir), max_spool_bytes)
        self._delivery = Delivery(
            self._spool,
            transport,
            batch_events=batch_events,
            batch_bytes=batch_bytes,
            linger_s=linger_s,
            on_delivery=on_delivery,
        )
        self._outbox = Outbox(self._spool, self._delivery, batch_events)
        self._closed = False

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_group(
        self,
        group_id: str,
        *,
        task_id: str,
        size: int,
        schedule: Schedule,
        deadline: int = 0,
        capabilities: Sequence[str] = (),
        split: DataSplit = DATA_SPLIT_TRAIN,
        at: int | None = None,
    ) -> None:
        """Open a group of `size` episodes. A group that this device opened before stays as it is.

        `deadline` and `at` are UTC microseconds; `at` defaults to now.
        """
        with self._outbox.lock:
            if self._spool.next_seq(group_id):
                return
            event = self._stream(group_id, group_id).event(now() if at is None else at)
            with typed():
                body = event.group_opened
                body.task_id = task_id
                body.size = size
                body.deadline = deadline
                body.schedule.CopyFrom(schedule)
                body.capabilities.extend(capabilities)
                body.split = split
            self._outbox.take(event)

    def episode(self, group_id: str, episode_id: str, **start: Any) -> "Episode":
        """An episode of a group, begun if it is new (`start` as in Episode.begin) or gone on
        with if this device began it before, in this process or an earlier one."""
        episode = Episode(self._outbox, self._stream(episode_id, group_id))
        with self._outbox.lock:
            if self._spool.ended(episode_id):
                raise InputError(f"episode {episode_id!r} has ended", "use a new episode_id")
            if not self._spool.next_seq(episode_id):
                episode.begin(**start)
        return episode

    def flush(self, timeout: float = 10.0) -> DeliveryReport:
        """Send what waits; return when nothing waits or after `timeout` seconds."""
        return self._delivery.flush(timeout)

    def report(self) -> DeliveryReport:
        return self._delivery.report()

    def close(self, timeout: float = 5.0) -> DeliveryReport:
        """Flush, stop the sending thread and close the spool; what is left goes out next time."""
        with self._outbox.lock:
            closed, self._closed = self._closed, True
        if closed:
            return self.report()
        report = self.flush(timeout)
        self._delivery.close()
        self._spool.close()
        return report

    def _stream(self, stream_id: str, group_id: str) -> Stream:
        with typed():
            return Stream(stream_id, group_id=group_id, **self._envelope)
