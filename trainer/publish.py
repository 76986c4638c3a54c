"""Making a policy public: objects first, then the events that name them.

A version is its content: the digest of weights and parent. Publishing the same policy
again gives the same keys, the same bytes and the same events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from schemas.errors import CheckFailedError
from schemas.event_pb2 import Event
from schemas.events import Stream, event_id
from schemas.training_pb2 import BatchTrained, ObjectRef, PolicyPublished
from trainer.forming import Formed
from trainer.history import PRODUCER
from trainer.learner import Outcome
from trainer.policy import ARCHITECTURE, WEIGHTS, Policy
from trainer.ports import Store

OPTIMISER = "optimizer.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A policy as files, named by what is in it. `optimiser` is the object key of the state
    that the next CARE update goes on from, "" where there is none."""

    version: str
    parent: str
    update: int
    parameters: int
    files: Mapping[str, bytes]

    @property
    def optimiser(self) -> str:
        return prefix(self.version) + OPTIMISER if OPTIMISER in self.files else ""

    def store(self, store: Store) -> ObjectRef:
        """Put every file into the object store, the weights last; returns where those are."""
        for name, content in self.files.items():
            if name != WEIGHTS:
                store.put(prefix(self.version) + name, content)
        return store.put(prefix(self.version) + WEIGHTS, self.files[WEIGHTS])


def checkpoint(policy: Policy, parent: str, update: int, optimiser: bytes | None) -> Checkpoint:
    """Take the policy as it is now."""
    files = policy.files()
    digest = sha256(parent.encode() + b"\n" + files[WEIGHTS]).hexdigest()
    if optimiser is not None:
        files[OPTIMISER] = optimiser
    return Checkpoint(f"p-{update:06d}-{digest[:8]}", parent, update, policy.parameters, files)


def prefix(version: str) -> str:
    """Where the objects of a policy are."""
    return f"policies/{version}/"


def fetch(store: Store, published: PolicyPublished) -> Mapping[str, bytes]:
    """The files of a policy by name; CheckFailedError if its weights are not those announced."""
    start = prefix(published.policy_version)
    files = {key.removeprefix(start): store.get(key) for key, _ in store.list(start)}
    if sha256(files.get(WEIGHTS, b"")).hexdigest() != published.weights.sha256:
        raise CheckFailedError(
            f"{start}{WEIGHTS} is not there or is not what was published",
            "restore the policy's objects from a copy of the store",
        )
    return files


def published_event(
    taken: Checkpoint,
    weights: ObjectRef,
    occurred_at: int,
    tenant: str,
    cause: str,
    batch_ids: Sequence[str] = (),
) -> Event:
    """PolicyPublished. `cause` is the id of the event that it answers."""
    event = Stream(
        f"policy:{taken.version}", tenant=tenant, producer=PRODUCER, policy_version=taken.version
    ).event(occurred_at, causation_id=cause)
    event.policy_published.CopyFrom(
        PolicyPublished(
            policy_version=taken.version,
            parent_version=taken.parent,
            weights=weights,
            update=taken.update,
            architecture=ARCHITECTURE,
            parameters=taken.parameters,
            batch_ids=batch_ids,
        )
    )
    return event


def ready_event(formed: Formed, tenant: str) -> Event:
    """BatchReady, the first event of the batch's stream."""
    event = _batch_stream(formed, tenant).event(
        formed.occurred_at, causation_id=formed.body.rows[-1].source_event_id
    )
    event.batch_ready.CopyFrom(formed.body)
    return event


def trained_event(formed: Formed, outcome: Outcome, taken: Checkpoint, tenant: str) -> Event:
    """BatchTrained, the second and last event of the batch's stream."""
    body = formed.body
    cause = event_id(_stream_id(formed), 0)
    event = _batch_stream(formed, tenant, next_seq=1).event(formed.occurred_at, causation_id=cause)
    event.batch_trained.CopyFrom(
        BatchTrained(
            batch_id=body.batch_id,
            kind=body.kind,
            from_policy_version=taken.parent,
            to_policy_version=taken.version,
            update=taken.update,
            loss=outcome.loss,
            gradient_norm=outcome.gradient_norm,
            clipped_share=outcome.clipped_share,
            trained_tokens=body.trained_tokens,
            groups=formed.groups,
            episodes=len({row.episode_id for row in body.rows}),
            groups_without_advantage=formed.groups_without_advantage,
        )
    )
    return event


def _stream_id(formed: Formed) -> str:
    return f"batch:{formed.body.batch_id}"


def _batch_stream(formed: Formed, tenant: str, next_seq: int = 0) -> Stream:
    return Stream(
        _stream_id(formed),
        tenant=tenant,
        producer=PRODUCER,
        policy_version=formed.body.policy_version,
        schedule_version=formed.schedule_version,
        next_seq=next_seq,
    )
