"""One episode as its device tells it, event by event."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from producers.episode import EpisodeWriter
from producers.outbox import EventRefusedError, Outbox, typed
from schemas.errors import InputError
from schemas.events import Stream, event_id
from schemas.refusal_pb2 import REASON_NOT_A_NUMBER
from schemas.rollout_pb2 import (
    BACKEND_DEVICE,
    CLOCK_KIND_MEASURED,
    FAILURE_ORIGIN_HARNESS,
    FAILURE_ORIGIN_UNSPECIFIED,
    FIDELITY_DEVICE,
    TERMINATION_DONE,
    TERMINATION_ERROR,
    ActionKind,
    Backend,
    FailureOrigin,
    Fidelity,
    ObservationKind,
    PolicySpan,
    Termination,
)


class Episode:
    """One episode as its device tells it. Made by Device.episode.

    Used as a context manager, an exception in the block ends the episode as an error of the
    harness (an invalid record, not a failure of the policy). Leaving the block without `end`
    leaves the episode open: the same call continues it, also after a restart.
    Times (`at`) are UTC microseconds and default to now. Methods return the event's id, raise
    EventRefusedError for what the edge would not let in and SpoolFullError at the bound.
    """

    def __init__(self, outbox: Outbox, stream: Stream) -> None:
        self._outbox = outbox
        self._stream = stream
        self._writer = EpisodeWriter(stream, outbox.take)

    @property
    def next_seq(self) -> int:
        return self._outbox.spool.next_seq(self._stream.stream_id)

    def __enter__(self) -> "Episode":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not self._outbox.spool.ended(self._stream.stream_id):
            self.end(TERMINATION_ERROR, failed=FAILURE_ORIGIN_HARNESS, detail=type(error).__name__)

    def begin(
        self,
        *,
        task_id: str,
        member: int = 0,
        request: str = "",
        instructions: str = "",
        seed: int = 0,
        backend: Backend = BACKEND_DEVICE,
        fidelity: Fidelity = FIDELITY_DEVICE,
        at: int | None = None,
    ) -> str:
        with self._next() as writer:
            return writer.start(
                now() if at is None else at,
                task_id=task_id,
                member=member,
                backend=backend,
                fidelity=fidelity,
                clock=CLOCK_KIND_MEASURED,
                request=request,
                instructions=instructions,
                seed=seed,
            )

    def act(
        self,
        *,
        tool: str = "",
        arguments: Mapping[str, Any] | None = None,
        text: str = "",
        call_id: str = "",
        kind: ActionKind | None = None,
        output_tokens: int | None = None,
        latency_us: int = 0,
        token_ids: Sequence[int] = (),
        logprobs: Sequence[float] = (),
        policy_spans: Iterable[PolicySpan] = (),
        at: int | None = None,
    ) -> str:
        """What the policy chose: a tool call (`tool`, `arguments`) or a message (`text`)."""
        with self._next() as writer:
            return writer.act(
                now() if at is None else at,
                tool=tool,
                arguments_json=_as_json(arguments or {}) if tool else "",
                text=text,
                call_id=call_id,
                kind=kind,
                output_tokens=output_tokens,
                latency_us=latency_us,
                token_ids=token_ids,
                logprobs=logprobs,
                policy_spans=policy_spans,
            )

    def observe(
        self,
        content: str,
        *,
        tool: str = "",
        call_id: str = "",
        error_code: str = "",
        kind: ObservationKind | None = None,
        latency_us: int = 0,
        state_digest: str = "",
        at: int | None = None,
    ) -> str:
        """What came back: a tool's result (`tool` or `call_id` given) or a user's message."""
        with self._next() as writer:
            return writer.observe(
                now() if at is None else at,
                content,
                tool=tool,
                call_id=call_id,
                error_code=error_code,
                kind=kind,
                latency_us=latency_us,
                state_digest=state_digest,
            )

    def verify(
        self,
        *,
        success: bool,
        progress: float,
        verifier: str,
        evidence: Sequence[str] = (),
        atoms: Iterable[tuple[str, bool]] = (),
        confidence: float = 1.0,
        detail: str = "",
        at: int | None = None,
    ) -> str:
        """A verifier's judgement; `evidence` are ids of the events that prove it."""
        with self._next() as writer:
            return writer.verify(
                now() if at is None else at,
                success=success,
                progress=progress,
                verifier=verifier,
                evidence=evidence,
                atoms=atoms,
                confidence=confidence,
                detail=detail,
            )

    def end(
        self,
        termination: Termination = TERMINATION_DONE,
        *,
        failed: FailureOrigin = FAILURE_ORIGIN_UNSPECIFIED,
        detail: str = "",
        at: int | None = None,
    ) -> str:
        with self._next() as writer:
            return writer.end(
                now() if at is None else at, termination, failed=failed, detail=detail
            )

    @contextmanager
    def _next(self) -> Iterator[EpisodeWriter]:
        """The writer, set to the stream's next number. A refused event takes no number."""
        stream_id = self._stream.stream_id
        with self._outbox.lock, typed():
            if self._outbox.spool.ended(stream_id):
                raise InputError(f"episode {stream_id!r} has ended", "use a new episode_id")
            seq = self._outbox.spool.next_seq(stream_id)
            self._stream.next_seq = seq
            self._writer.last_id = event_id(stream_id, seq - 1) if seq else ""
            yield self._writer


def _as_json(arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise EventRefusedError(
            REASON_NOT_A_NUMBER, "arguments hold a NaN or an infinity, or contain themselves"
        ) from None


def now() -> int:
    """UTC microseconds since 1970."""
    return time.time_ns() // 1000
