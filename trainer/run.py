"""A training run: from the log to the next policies, and back to the log.

Order is everything. A batch is announced before it is trained; weights are durable
before the manifest names them; the manifest is durable before the log hears of the
update; positions are acknowledged last. Whatever is cut off is either redone with the
same rows to the same bits, or told again with the same bytes.
"""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import torch

from schemas.errors import CheckFailedError, InputError
from schemas.event_pb2 import Event
from schemas.training_pb2 import BATCH_KIND_SUPERVISED, TrainingRecord
from trainer import history, manifest, publish
from trainer.codec import UnfitRecordError
from trainer.config import TrainConfig, check_window
from trainer.forming import NAMES, Formed, Former, load_record
from trainer.learner import Learner, Outcome, Progress
from trainer.manifest import Manifest
from trainer.policy import Policy
from trainer.ports import Log, Store
from trainer.publish import Checkpoint


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch that was trained. `redone`: it had been announced by a run that did not finish."""

    batch_id: str
    kind: str
    policy_version: str
    loss: float
    gradient_norm: float
    clipped_share: float
    episodes: int
    groups: int
    groups_without_advantage: int
    trained_tokens: int
    tokens: int
    seconds: float
    behaviour: str
    redone: bool


@dataclass(slots=True)
class TrainReport:
    """What a run did. `policy_version` is the policy that now stands ("" if there is none);
    `left_out` and `waiting` count by reason what gave no row, for good or until a later run;
    `told_again` says that the last run had died before it could announce its update."""

    policy_version: str = ""
    batches: list[BatchReport] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    told_again: bool = False

    @property
    def nothing_new(self) -> bool:
        return not self.batches


def train(
    log: Log,
    store: Store,
    state_dir: Path,
    config: TrainConfig,
    on_progress: Callable[[Progress], None] | None = None,
) -> TrainReport:
    """Train on everything on the log that has not been trained on: supervised, then CARE.

    ConfigError for a combination that is refused, DivergedError for an update that is not
    finite, InputError for a log or state that does not fit; nothing is published then.
    """
    with _alone(state_dir), _reproducible(config.threads):
        return _Run(log, store, state_dir / "manifest.json", config, on_progress).go()


class _Run:
    def __init__(
        self,
        log: Log,
        store: Store,
        path: Path,
        config: TrainConfig,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._log = log
        self._store = store
        self._path = path
        self._config = config
        self._on_progress = on_progress
        self._report = TrainReport()
        self._history = history.read(log)
        self._optimiser: bytes | None = None
        self._version = ""
        self._unannounced: tuple[Checkpoint, Event] | None = None

    def go(self) -> TrainReport:
        if self._history.refused:
            self._report.left_out["events that the edge refuses"] = self._history.refused
        self._settle()
        policy = self._policy()
        if policy is not None:
            former = Former(self._history, self._store, policy, self._config)
            former.check()
            for event in self._history.owed:
                self._redo(policy, former, event)
            for form in (former.supervised, former.care):
                formed = form(self._version)
                if formed is not None:
                    self._announce(formed)
                    self._train(policy, formed, redone=False)
            self._report.left_out.update(former.left_out)
            self._report.waiting.update(former.waiting)
        if self._history.positions:
            self._log.acknowledge(self._history.positions)
        self._report.policy_version = self._history.policy_version or ""
        return self._report

    def _settle(self) -> None:
        """Tell the log what the last run did not live to tell."""
        last = manifest.load(self._path)
        if last is None:
            return
        for place, position in last.positions.items():
            topic, partition = place.rsplit("/", 1)
            if self._history.positions.get((topic, int(partition)), 0) < position:
                raise InputError(
                    f"{self._path} has seen {place} up to {position}, the log ends before that",
                    "use the log that this state belongs to, or another state directory",
                )
        untold = [event for event in last.events if event.event_id not in self._history.known]
        if untold:
            self._tell(untold)
            self._report.told_again = True

    def _policy(self) -> Policy | None:
        """The policy to go on from, else a new one; None where there is nothing to learn from."""
        version = self._history.policy_version
        if version is None:
            return self._new_policy()
        published = self._history.policies[version].policy_published
        files = publish.fetch(self._store, published)
        policy = Policy.load(files)
        check_window(self._config.window, policy.context_length)
        self._optimiser = files.get(publish.OPTIMISER)
        self._version = version
        return policy

    def _new_policy(self) -> Policy | None:
        """A policy that stays unannounced until there is a batch for it."""
        read = list(islice(self._readable(), self._config.tokenizer_records))
        if not read:
            return None
        records = [record for _, record in read]
        policy = Policy.create(self._config.model, records, self._config.seed)
        taken = publish.checkpoint(policy, parent="", update=0, optimiser=None)
        self._version = taken.version
        self._unannounced = taken, read[-1][0]
        return policy

    def _readable(self) -> Iterator[tuple[Event, TrainingRecord]]:
        for event in self._history.curated():
            with suppress(UnfitRecordError):
                yield event, load_record(self._store, event)

    def _announce(self, formed: Formed) -> None:
        tenant = self._config.tenant
        if self._unannounced:
            taken, cause = self._unannounced
            weights = taken.store(self._store)
            self._tell(
                [publish.published_event(taken, weights, cause.occurred_at, tenant, cause.event_id)]
            )
            self._unannounced = None
        self._tell([publish.ready_event(formed, tenant)])

    def _redo(self, policy: Policy, former: Former, event: Event) -> None:
        """Train a batch that was announced by a run that did not finish it."""
        wanted = event.batch_ready.policy_version
        if wanted != self._version:
            raise CheckFailedError(
                f"batch {event.batch_ready.batch_id} was announced for policy {wanted}, the log "
                f"stands at {self._version}",
                "find out who else trains on this log; one trainer writes to it at a time",
            )
        self._train(policy, former.again(event), redone=True)

    def _train(self, policy: Policy, formed: Formed, *, redone: bool) -> None:
        body = formed.body
        learner = Learner(policy, self._config, self._on_progress)
        if body.kind == BATCH_KIND_SUPERVISED:
            outcome = learner.supervise(formed.rows, body.batch_id)
        else:
            outcome, self._optimiser = learner.optimise(
                formed.rows, formed.groups, body.batch_id, self._optimiser
            )
        self._finish(policy, formed, outcome)
        self._report.batches.append(
            BatchReport(
                batch_id=body.batch_id,
                kind=NAMES[body.kind],
                policy_version=self._version,
                loss=outcome.loss,
                gradient_norm=outcome.gradient_norm,
                clipped_share=outcome.clipped_share,
                episodes=len({row.episode_id for row in body.rows}),
                groups=formed.groups,
                groups_without_advantage=formed.groups_without_advantage,
                trained_tokens=body.trained_tokens,
                tokens=outcome.tokens,
                seconds=outcome.seconds,
                behaviour=formed.behaviour,
                redone=redone,
            )
        )

    def _finish(self, policy: Policy, formed: Formed, outcome: Outcome) -> None:
        """Weights, manifest, log: in this order."""
        update = self._history.update + 1
        tenant = self._config.tenant
        taken = publish.checkpoint(policy, formed.body.policy_version, update, self._optimiser)
        weights = taken.store(self._store)
        trained = publish.trained_event(formed, outcome, taken, tenant)
        published = publish.published_event(
            taken,
            weights,
            formed.occurred_at,
            tenant,
            trained.causation_id,
            [formed.body.batch_id],
        )
        manifest.save(
            self._path,
            Manifest(
                policy_version=taken.version,
                update=update,
                optimiser=taken.optimiser,
                seed=self._config.seed,
                schedule_version=formed.schedule_version,
                positions={
                    f"{topic}/{partition}": position
                    for (topic, partition), position in self._history.positions.items()
                },
                outbox=[
                    event.SerializeToString(deterministic=True).hex()
                    for event in (published, trained)
                ],
            ),
        )
        self._tell([published, trained])
        self._version = taken.version

    def _tell(self, events: Sequence[Event]) -> None:
        self._log.write(events)
        for event in events:
            self._history.apply(event)


@contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """Hold the state directory; the lock goes with the process, however that ends."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"another trainer holds {state_dir}", "wait for it, or use another state directory"
            ) from error
        yield


@contextmanager
def _reproducible(threads: int) -> Iterator[None]:
    """A fixed number of threads and only deterministic kernels, put back afterwards."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
