"""The digest of a training batch: what is trained on, bit for bit, as one name.

Trainer and verifier compute it from the same rows, so a batch on the log can be
checked without the trainer.
"""

import struct
from collections.abc import Sequence
from hashlib import sha256

from schemas.training_pb2 import BatchRow


def batch_digest(rows: Sequence[BatchRow]) -> str:
    """SHA-256 over the rows in order, lower-case hex. Numbers enter as IEEE bits and texts with
    their length, so that two batches have one digest only if they are equal field by field."""
    digest = sha256()
    for row in rows:
        for text in (row.episode_id, row.group_id, row.source_event_id):
            encoded = text.encode()
            digest.update(struct.pack(">I", len(encoded)))
            digest.update(encoded)
        digest.update(struct.pack(">dd", row.advantage, row.weight))
    return digest.hexdigest()
