"""What the group fold makes of a log that was never on a broker."""

from infra.log import Record
from producers.importers.imported import ImportedLog
from producers.records import records
from schemas.event_pb2 import Event
from schemas.topics import ROLLOUTS
from streams.driver import drive
from streams.groups import GroupFold


def scored(log: ImportedLog) -> list[Event]:
    """Everything that GroupFold derives from the log's rollouts."""
    found: list[Record] = []
    for keyed in log.build():
        if keyed.topic is ROLLOUTS:
            for value in records(keyed.events):
                key = keyed.key.encode()
                found.append(Record(ROLLOUTS.name, 0, len(found), key, value, 0))
    return drive(GroupFold(), found).events
