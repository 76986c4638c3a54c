"""Time for groups in which nothing happens any more.

A fold knows no clock: a deadline passes for it when an event says so. This looks in the
warehouse for open groups whose deadline is over and appends that event, once for each group,
under an identity that makes saying it twice harmless.
"""

from infra.log import Producer
from infra.warehouse import Warehouse
from schemas.events import Stream
from schemas.topics import ROLLOUTS
from streams.groups import clock_stream

_OVERDUE = """
SELECT opened.tenant, opened.group_id, JSONExtractInt(opened.body, 'deadline') AS deadline
FROM events AS opened
LEFT ANTI JOIN groups USING (tenant, group_id)
WHERE opened.kind = 'group_opened' AND deadline > 0 AND deadline <= {now:Int64}
ORDER BY deadline, opened.group_id
LIMIT 10000
"""


def close_overdue(warehouse: Warehouse, producer: Producer, now: int) -> int:
    """Tell groups that are open past their deadline (at `now`, UTC microseconds) that it is
    over. Returns how many were told; durable on return."""
    overdue = warehouse.rows(_OVERDUE, {"now": now})
    for tenant, group_id, deadline in overdue:
        stream = Stream(
            clock_stream(group_id), tenant=tenant, producer="planloop.clock", group_id=group_id
        )
        event = stream.event(deadline)
        event.clock_advanced.now = deadline
        producer.send_events(ROLLOUTS, [event])
    producer.flush()
    return len(overdue)
