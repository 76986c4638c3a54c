"""The HTTP gateway: how events come in where no Kafka client can run.

`POST /v1/events` takes an EventBatch, as protobuf or as protobuf JSON, whole or not at all.
200 means that the log has acknowledged every record; any other answer means that the sender
still has the events. A refusal is JSON `{"reason", "detail", "index"}`, `index` being the
event's position where one event is at fault. `GET /healthz` says whether the log answers.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Annotated

import uvicorn
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from pydantic import Field, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from infra.log import Producer
from infra.settings import Settings
from producers.admission import Admission, RequestRefusedError
from producers.group_commit import GroupCommit, KeyedValue, QueueFullError
from producers.records import RecordSink, records
from schemas.descriptors import POOL
from schemas.errors import InfrastructureAwayError, InputError
from schemas.event_pb2 import EventBatch

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_LARGE = 64 * 1024
"""Bodies above this are parsed in a thread, so that they do not hold up the others."""

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class GatewaySettings(BaseSettings):
    """Settings of the gateway, from PLANLOOP_GATEWAY_*.

    `tokens` holds, for each tenant, the SHA-256 of its bearer tokens. Without any, the gateway
    serves `open_tenant` to everybody on this machine, and binds to loopback only.
    """

    model_config = SettingsConfigDict(env_prefix="PLANLOOP_GATEWAY_")

    host: str = "127.0.0.1"
    port: int = 8480
    tokens: dict[str, list[Sha256]] = Field(default_factory=dict, repr=False)
    open_tenant: str = "local"
    max_body_bytes: int = 4 * 1024 * 1024
    events_per_second: float = 5000.0
    burst_events: int = 20_000
    ack_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    pause_s: float = 1.0
    max_pending_bytes: int = 64 * 1024 * 1024


def create_app(settings: GatewaySettings, producer: RecordSink) -> Starlette:
    """The gateway as an ASGI application that writes through `producer`."""
    admission = Admission(
        settings.tokens, settings.open_tenant, settings.events_per_second, settings.burst_events
    )
    commit = GroupCommit(
        producer,
        ack_timeout_s=settings.ack_timeout_s,
        pause_s=settings.pause_s,
        max_pending_bytes=settings.max_pending_bytes,
    )

    async def take(request: Request) -> JSONResponse:
        if not settings.tokens and request.url.hostname not in _LOOPBACK:
            # A page in a browser must not reach an open gateway under a name of its own.
            raise RequestRefusedError(403, "UNKNOWN_HOST", "this gateway serves loopback only")
        tenant = admission.tenant(request.headers.get("authorization", ""))
        parse = _parser(request)
        try:
            body = await asyncio.wait_for(
                _body(request, settings.max_body_bytes), settings.body_timeout_s
            )
        except TimeoutError as error:
            raise RequestRefusedError(408, "BODY_TOO_SLOW", "the body did not come") from error
        batch = await run_in_threadpool(parse, body) if len(body) > _LARGE else parse(body)
        keyed = admission.admit(batch.events, tenant, time.time_ns() // 1000)
        values = [
            KeyedValue(topic, key, value)
            for (topic, key), events in keyed.items()
            for value in records(events)
        ]
        try:
            await commit.commit(values)
        except InfrastructureAwayError as error:
            raise _later("LOG_AWAY", error, settings.pause_s) from error
        except QueueFullError as error:
            raise _later("QUEUE_FULL", error, settings.pause_s) from error
        return JSONResponse({"acknowledged": len(batch.events)})

    async def health(_: Request) -> JSONResponse:
        away = commit.away
        return JSONResponse({"log": "away" if away else "ok"}, 503 if away else 200)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(commit.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            commit.close()

    return Starlette(
        routes=[Route("/v1/events", take, methods=["POST"]), Route("/healthz", health)],
        exception_handlers={RequestRefusedError: _refused, HTTPException: _unknown},
        lifespan=lifespan,
    )


def serve(settings: GatewaySettings, producer: RecordSink) -> None:
    """Serve until SIGINT or SIGTERM. InputError for an open gateway on other than loopback."""
    check_binding(settings)
    uvicorn.run(
        create_app(settings, producer),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=2000,
    )


def check_binding(settings: GatewaySettings) -> None:
    """Raise InputError if the gateway would listen to others without asking for a token."""
    try:
        loopback = settings.host == "localhost" or ip_address(settings.host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not any(settings.tokens.values()):
        raise InputError(
            f"the gateway has no tokens and would listen on {settings.host}",
            "set PLANLOOP_GATEWAY_TOKENS or bind to 127.0.0.1",
        )


async def _body(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise RequestRefusedError(413, "BODY_TOO_LARGE", f"more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _parser(request: Request) -> Callable[[bytes], EventBatch]:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == "application/x-protobuf":
        return _from_protobuf
    if media == "application/json":
        return _from_json
    raise RequestRefusedError(
        415, "UNSUPPORTED_MEDIA_TYPE", "send application/x-protobuf or application/json"
    )


def _from_protobuf(body: bytes) -> EventBatch:
    try:
        return EventBatch.FromString(body)
    except DecodeError as error:
        raise RequestRefusedError(400, "UNPARSEABLE", "the body is no EventBatch") from error


def _from_json(body: bytes) -> EventBatch:
    try:
        return json_format.Parse(body, EventBatch(), descriptor_pool=POOL)
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise RequestRefusedError(
            400, "UNPARSEABLE", "the body is no EventBatch in JSON"
        ) from error


def _later(reason: str, error: Exception, pause_s: float) -> RequestRefusedError:
    return RequestRefusedError(503, reason, str(error), retry_after_s=pause_s)


def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestRefusedError)
    answer = {"reason": error.reason, "detail": error.detail, "index": error.index}
    return JSONResponse(answer, error.status, error.headers())


def _unknown(_: Request, error: Exception) -> JSONResponse:
    """What the router itself refuses: another path, another method."""
    assert isinstance(error, HTTPException)
    answer = {"reason": "NOT_FOUND", "detail": error.detail, "index": None}
    return JSONResponse(answer, error.status_code, error.headers)


def main() -> None:
    """Run the gateway in front of the log that the settings name."""
    producer = Producer(Settings().endpoints().kafka)
    serve(GatewaySettings(), producer)
    producer.close()


if __name__ == "__main__":
    main()
