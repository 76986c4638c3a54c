"""The log client: records in, records out, on Apache Kafka and on the embedded broker alike.

Nothing here trusts ListOffsets (wrong on the embedded broker), takes offsets to be consecutive
(aborted transactions leave gaps), or calls a record sent before the broker acknowledged it.
"""

from infra.log.producer import Producer
from infra.log.ranges import end_offsets, read_range
from infra.log.reader import Reader
from infra.log.record import Record
from infra.log.topics import ensure_topics, partitions_of

__all__ = [
    "Producer",
    "Reader",
    "Record",
    "end_offsets",
    "ensure_topics",
    "partitions_of",
    "read_range",
]
