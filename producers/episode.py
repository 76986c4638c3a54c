"""Writing one episode: the events of a rollout in their order, each citing the one it answers.

Importers, the generator and the device SDK all write through this class, so an episode
looks the same on the log wherever it came from. It needs protobuf and nothing else.
"""

from collections.abc import Callable, Iterable, Sequence

from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import (
    ACTION_KIND_MESSAGE,
    ACTION_KIND_TOOL_CALL,
    FAILURE_ORIGIN_UNSPECIFIED,
    OBSERVATION_KIND_TOOL_RESULT,
    OBSERVATION_KIND_USER_MESSAGE,
    ActionKind,
    Backend,
    ClockKind,
    FailureOrigin,
    Fidelity,
    ObservationKind,
    PolicySpan,
    Termination,
)


class EpisodeWriter:
    """Numbers and fills the events of one episode and hands each to `emit`.

    `last_id` is the newest event's id, the cause of whatever comes next unless the caller
    names another. Times (`at`) are UTC microseconds. Every method returns the event_id.
    """

    def __init__(self, stream: Stream, emit: Callable[[Event], object], last_id: str = "") -> None:
        self.stream = stream
        self.last_id = last_id
        self._emit = emit

    def start(
        self,
        at: int,
        *,
        task_id: str,
        member: int,
        backend: Backend,
        fidelity: Fidelity,
        clock: ClockKind,
        request: str = "",
        instructions: str = "",
        seed: int = 0,
        source: str = "",
        context_token_ids: Sequence[int] = (),
    ) -> str:
        event = self.stream.event(at)
        body = event.episode_started
        body.episode_id = self.stream.stream_id
        body.task_id = task_id
        body.member = member
        body.seed = seed
        body.backend = backend
        body.fidelity = fidelity
        body.clock = clock
        body.request = request
        body.instructions = instructions
        body.source = source
        body.context_token_ids.extend(context_token_ids)
        return self._done(event)

    def act(
        self,
        at: int,
        *,
        tool: str = "",
        arguments_json: str = "",
        text: str = "",
        call_id: str = "",
        kind: ActionKind | None = None,
        output_tokens: int | None = None,
        latency_us: int = 0,
        token_ids: Sequence[int] = (),
        logprobs: Sequence[float] = (),
        policy_spans: Iterable[PolicySpan] = (),
        cause: str | None = None,
    ) -> str:
        """`kind` defaults to a tool call where `tool` is given, else to a message."""
        event = self.stream.event(at, causation_id=self.last_id if cause is None else cause)
        body = event.action_taken
        if kind is None:
            kind = ACTION_KIND_TOOL_CALL if tool else ACTION_KIND_MESSAGE
        body.kind = kind
        if tool:
            body.tool = tool
            body.arguments_json = arguments_json
        if text:
            body.text = text
        if call_id:
            body.call_id = call_id
        if output_tokens is not None:
            body.output_tokens = output_tokens
        if latency_us:
            body.latency_us = latency_us
        if token_ids:
            body.token_ids.extend(token_ids)
            body.logprobs.extend(logprobs)
            body.policy_spans.extend(policy_spans)
        return self._done(event)

    def observe(
        self,
        at: int,
        content: str,
        *,
        tool: str = "",
        call_id: str = "",
        error_code: str = "",
        kind: ObservationKind | None = None,
        latency_us: int = 0,
        state_digest: str = "",
        token_ids: Sequence[int] = (),
        cause: str | None = None,
    ) -> str:
        """`kind` defaults to a tool result where `tool` or `call_id` is given, else to a user
        message."""
        event = self.stream.event(at, causation_id=self.last_id if cause is None else cause)
        body = event.observation_received
        if kind is None:
            called = tool or call_id
            kind = OBSERVATION_KIND_TOOL_RESULT if called else OBSERVATION_KIND_USER_MESSAGE
        body.kind = kind
        body.content = content
        if tool:
            body.tool = tool
        if call_id:
            body.call_id = call_id
        if error_code:
            body.error_code = error_code
        if latency_us:
            body.latency_us = latency_us
        if state_digest:
            body.state_digest = state_digest
        if token_ids:
            body.token_ids.extend(token_ids)
        return self._done(event)

    def verify(
        self,
        at: int,
        *,
        success: bool,
        progress: float,
        verifier: str,
        evidence: Sequence[str] = (),
        atoms: Iterable[tuple[str, bool]] = (),
        confidence: float = 1.0,
        detail: str = "",
    ) -> str:
        """`atoms` are (name, satisfied) pairs of the goal."""
        event = self.stream.event(at, causation_id=self.last_id)
        body = event.verification_made
        body.verifier = verifier
        body.success = success
        body.progress = progress
        body.confidence = confidence
        body.detail = detail
        body.evidence.extend(evidence)
        for name, satisfied in atoms:
            body.atoms.add(name=name, satisfied=satisfied)
        return self._done(event)

    def end(
        self,
        at: int,
        termination: Termination,
        *,
        failed: FailureOrigin = FAILURE_ORIGIN_UNSPECIFIED,
        detail: str = "",
    ) -> str:
        event = self.stream.event(at, causation_id=self.last_id)
        body = event.episode_ended
        body.termination = termination
        body.failed = failed
        body.detail = detail
        return self._done(event)

    def diagnose(
        self,
        at: int,
        *,
        origin: FailureOrigin,
        kind: str,
        capability: str,
        erroneous_seqs: Sequence[int],
        recovery_seq: int | None,
        diagnoser: str,
        confidence: float = 1.0,
    ) -> str:
        """`erroneous_seqs` and `recovery_seq` are sequence numbers of turns of this episode."""
        event = self.stream.event(at, causation_id=self.last_id)
        body = event.failure_diagnosed
        body.origin = origin
        body.kind = kind
        body.capability = capability
        body.erroneous_seqs.extend(erroneous_seqs)
        if recovery_seq is not None:
            body.recovery_seq = recovery_seq
        body.diagnoser = diagnoser
        body.confidence = confidence
        return self._done(event)

    def _done(self, event: Event) -> str:
        self._emit(event)
        self.last_id = event.event_id
        return self.last_id
