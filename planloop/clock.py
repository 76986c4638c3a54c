"""Time for groups in which nothing happens any more.

A fold knows no clock: a deadline passes for it when an event says so. Whoever hosts the
group fold, and has read the log to its end, appends that event for the groups that are
still open past their deadline. Its identity makes saying it twice harmless.
"""

from collections.abc import Iterable

from infra.log import Producer
from schemas.events import Stream
from schemas.topics import ROLLOUTS
from streams.groups import Group, clock_stream


def close_overdue(groups: Iterable[Group], producer: Producer, now: int) -> int:
    """Tell groups that are open past their deadline (at `now`, UTC microseconds) that it is
    over. Returns how many were told; durable on return."""
    told = 0
    for group in groups:
        opened = group.opened
        if opened is None or group.closed_at or not 0 < opened.deadline <= now:
            continue
        stream = Stream(
            clock_stream(group.group_id),
            tenant=opened.tenant,
            producer="planloop.clock",
            group_id=group.group_id,
        )
        event = stream.event(opened.deadline)
        event.clock_advanced.now = opened.deadline
        producer.send_events(ROLLOUTS, [event])
        told += 1
    producer.flush()
    return told
