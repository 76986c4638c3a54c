import asyncio
import hashlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf import json_format

from infra.log import Producer
from infra.settings import Settings
from infra.stack import status
from planloop import Device
from producers.gateway import GatewaySettings, check_binding, create_app
from schemas.errors import InfrastructureAwayError, InputError
from schemas.event_pb2 import Event, EventBatch
from schemas.events import event_id
from schemas.topics import TASKS
from tests.builders import good_episode, good_group, group_opened
from tests.producers.reading import events_on, ids_on
from tests.producers.serving import serving

TOKEN = "a-token-of-acme"
OTHER = "a-token-of-other"
PROTOBUF = {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {TOKEN}"}
NOWHERE = "127.0.0.1:9"


def settings(**choices: Any) -> GatewaySettings:
    tokens = {
        tenant: [hashlib.sha256(token.encode()).hexdigest()]
        for tenant, token in (("acme", TOKEN), ("other", OTHER))
    }
    chosen: dict[str, Any] = {"tokens": tokens} | choices
    return GatewaySettings(**chosen)


def fresh() -> str:
    return f"gw-{uuid.uuid4().hex[:10]}"


def body_of(*events: Event) -> bytes:
    return EventBatch(events=events).SerializeToString()


@pytest.fixture
def gateway(broker: str) -> Iterator[str]:
    producer = Producer(broker)
    with serving(create_app(settings(), producer)) as url:
        yield url
    producer.close()


@pytest.fixture
def deaf_gateway() -> Iterator[str]:
    """A gateway whose log is away."""
    producer = Producer(NOWHERE)
    with serving(create_app(settings(ack_timeout_s=0.3, pause_s=1.5), producer)) as url:
        yield url
    with suppress(InfrastructureAwayError):
        producer.close(0.1)


def post(url: str, body: bytes, headers: dict[str, str] = PROTOBUF) -> httpx.Response:
    return httpx.post(f"{url}/v1/events", content=body, headers=headers, timeout=30)


def refused(response: httpx.Response) -> tuple[int, str, int | None]:
    answer = response.json()
    assert set(answer) == {"reason", "detail", "index"}
    return response.status_code, answer["reason"], answer["index"]


def test_events_arrive_stamped_under_their_keys(broker: str, gateway: str) -> None:
    one, two = fresh(), fresh()
    events = [*good_group(one), *good_group(two)]
    before = time.time_ns() // 1000
    response = post(gateway, body_of(*events))
    assert (response.status_code, response.json()) == (200, {"acknowledged": len(events)})
    for group_id in (one, two):
        arrived = events_on(broker, group_id)
        assert [e.event_id for e in arrived] == [
            e.event_id for e in events if e.group_id == group_id
        ]
        assert all(before <= e.recorded_at <= time.time_ns() // 1000 for e in arrived)


def test_json_and_other_topics(broker: str, gateway: str) -> None:
    name = fresh()
    task = Event(
        stream_id=f"task:{name}",
        event_id=event_id(f"task:{name}", 0),
        occurred_at=1_767_225_600_000_000,
        producer="tests",
        tenant="acme",
    )
    task.task_specified.task_id = name
    document = json_format.MessageToJson(EventBatch(events=[task, group_opened(name)]))
    headers = PROTOBUF | {"Content-Type": "application/json; charset=utf-8"}
    assert post(gateway, document.encode(), headers).status_code == 200
    assert ids_on(broker, f"task:{name}", TASKS) == [task.event_id]
    assert ids_on(broker, name) == [f"{name}#0"]


def test_a_retry_adds_nothing(broker: str, gateway: str) -> None:
    name = fresh()
    body = body_of(*good_group(name))
    assert {post(gateway, body).status_code for _ in range(2)} == {200}
    assert len(ids_on(broker, name)) == len(EventBatch.FromString(body).events)


def test_without_a_valid_token_nothing_is_read(deaf_gateway: str) -> None:
    for authorization in (
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
    ):
        response = post(deaf_gateway, b"x", PROTOBUF | {"Authorization": authorization})
        assert refused(response) == (401, "UNAUTHENTICATED", None)
        assert response.headers["WWW-Authenticate"] == "Bearer"


def _nan(event: Event) -> None:
    event.verification_made.progress = float("nan")


def _broken(position: int, change: Any) -> bytes:
    events = good_episode("g", 0)
    change(events[position])
    return body_of(*events)


REFUSALS: dict[str, tuple[bytes, tuple[int, str, int | None]]] = {
    "not protobuf": (b"\xff\xff\xff", (400, "UNPARSEABLE", None)),
    "nothing": (b"", (400, "NO_EVENTS", None)),
    "no body": (_broken(2, lambda e: e.ClearField("observation_received")), (422, "BODY_UNSET", 2)),
    "NaN": (_broken(-2, _nan), (422, "NOT_A_NUMBER", 8)),
    "unknown enum": (
        _broken(1, lambda e: setattr(e.action_taken, "kind", 99)),
        (422, "UNKNOWN_ENUM", 1),
    ),
    "1970": (
        _broken(3, lambda e: setattr(e, "occurred_at", 7)),
        (422, "CLOCK_OUT_OF_RANGE", 3),
    ),
    "2099": (
        _broken(3, lambda e: setattr(e, "occurred_at", 4_090_000_000_000_000)),
        (422, "CLOCK_OUT_OF_RANGE", 3),
    ),
    "wrong id": (_broken(4, lambda e: setattr(e, "event_id", "x#1")), (422, "WRONG_EVENT_ID", 4)),
    "another tenant": (
        _broken(0, lambda e: setattr(e, "tenant", "other")),
        (403, "WRONG_TENANT", 0),
    ),
    "what folds derive": (
        _broken(5, lambda e: e.group_scored.SetInParent()),
        (403, "WRONG_TOPIC", 5),
    ),
    "the partition's clock": (
        _broken(1, lambda e: setattr(e.clock_advanced, "now", 4_000_000_000_000_000)),
        (403, "WRONG_TOPIC", 1),
    ),
    "a large event": (
        _broken(2, lambda e: setattr(e.observation_received, "content", "x" * 1_200_000)),
        (413, "TOO_LARGE", 2),
    ),
    "a large body": (b"x" * (5 << 20), (413, "BODY_TOO_LARGE", None)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_why_and_which(name: str, deaf_gateway: str) -> None:
    body, expected = REFUSALS[name]
    assert refused(post(deaf_gateway, body)) == expected


def test_one_bad_event_keeps_its_neighbours_out(broker: str, gateway: str) -> None:
    name = fresh()
    events = good_group(name)
    events[-1].producer = ""
    assert refused(post(gateway, body_of(*events))) == (422, "MISSING_FIELD", len(events) - 1)
    assert ids_on(broker, name) == []


def test_bad_json_and_other_media(deaf_gateway: str) -> None:
    as_json = PROTOBUF | {"Content-Type": "application/json"}
    for body in (
        b"{",
        b'{"events": 5}',
        b'{"events": [{"stream": "x"}]}',
        b"\xff",
        b'{"events": [{"streamId": "\\ud800"}]}',
        b"[" * 50_000,
    ):
        assert refused(post(deaf_gateway, body, as_json)) == (400, "UNPARSEABLE", None)
    for media in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = post(deaf_gateway, b"", PROTOBUF | {"Content-Type": media})
        assert refused(response)[:2] == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert refused(httpx.get(f"{deaf_gateway}/v1/events")) == (405, "NOT_FOUND", None)
    assert refused(httpx.get(f"{deaf_gateway}/admin")) == (404, "NOT_FOUND", None)


def test_a_claimed_index_is_set_aside(broker: str, gateway: str) -> None:
    name = fresh()
    batch = EventBatch(events=good_group(name))
    batch.runs.add(stream_id="another", first_seq=7, bodies=bytes(len(batch.events)))
    assert post(gateway, batch.SerializeToString()).status_code == 200
    assert len(events_on(broker, name)) == len(batch.events)


def test_rates_are_limited_by_tenant(broker: str) -> None:
    producer = Producer(broker)
    limited = settings(events_per_second=2.0, burst_events=20)
    with serving(create_app(limited, producer)) as url:
        body = body_of(*good_episode(fresh(), 0))
        assert [post(url, body).status_code for _ in range(2)] == [200, 200]
        response = post(url, body)
        assert refused(response) == (429, "RATE_LIMITED", None)
        assert 3 <= int(response.headers["Retry-After"]) <= 5
        theirs = body_of(*good_episode(fresh(), 0, tenant="other"))
        assert post(url, theirs, PROTOBUF | {"Authorization": f"Bearer {OTHER}"}).status_code == 200
        too_many = body_of(*good_group(fresh()))
        assert refused(post(url, too_many)) == (413, "TOO_MANY_EVENTS", None)
    producer.close()


def test_a_log_that_is_away_is_said_so_and_nothing_counts_as_sent(deaf_gateway: str) -> None:
    body = body_of(*good_episode("g", 0))
    assert httpx.get(f"{deaf_gateway}/healthz").json() == {"log": "ok"}
    first = post(deaf_gateway, body)
    assert refused(first) == (503, "LOG_AWAY", None)
    assert first.headers["Retry-After"] == "2"
    started = time.monotonic()
    assert refused(post(deaf_gateway, body)) == (503, "LOG_AWAY", None)
    assert time.monotonic() - started < 0.2, "while the log is away nobody waits for it"
    health = httpx.get(f"{deaf_gateway}/healthz")
    assert (health.status_code, health.json()) == (503, {"log": "away"})


def test_what_may_wait_is_bounded(tmp_path: Path) -> None:
    producer = Producer(NOWHERE)
    bounded = settings(ack_timeout_s=1.0, max_pending_bytes=2000, pause_s=0.0)

    async def flood(url: str) -> list[tuple[int, str, int | None]]:
        body = body_of(*good_episode("g", 0))
        async with httpx.AsyncClient(timeout=30, headers=PROTOBUF) as client:
            posts = [client.post(f"{url}/v1/events", content=body) for _ in range(5)]
            return [refused(response) for response in await asyncio.gather(*posts)]

    with serving(create_app(bounded, producer)) as url:
        answers = asyncio.run(flood(url))
    assert answers.count((503, "QUEUE_FULL", None)) == 4
    assert answers.count((503, "LOG_AWAY", None)) == 1
    with pytest.raises(InfrastructureAwayError):
        producer.close(0.1)


def test_requests_in_flight_share_their_acknowledgement(broker: str) -> None:
    class Counting(Producer):
        flushes = 0

        def flush(self, timeout_s: float = 60.0) -> None:
            self.flushes += 1
            super().flush(timeout_s)

    producer = Counting(broker)
    names = [fresh() for _ in range(120)]

    async def send_all(url: str) -> set[int]:
        async with httpx.AsyncClient(timeout=30, headers=PROTOBUF) as client:
            posts = [
                client.post(f"{url}/v1/events", content=body_of(*good_episode(name, 0)))
                for name in names
            ]
            return {response.status_code for response in await asyncio.gather(*posts)}

    with serving(create_app(settings(), producer)) as url:
        assert asyncio.run(send_all(url)) == {200}
        flushes = producer.flushes
    assert flushes < len(names) / 2
    assert len({e.group_id for e in events_on(broker, "gw-")} & set(names)) == len(names)
    producer.close()


def test_killing_the_broker_loses_no_acknowledged_event(fresh_stack: Settings) -> None:
    bootstrap = fresh_stack.endpoints().kafka
    producer = Producer(bootstrap)
    prefix = fresh()
    acknowledged: list[str] = []
    statuses: set[int] = set()

    async def send(client: httpx.AsyncClient, url: str, number: int) -> None:
        body = body_of(*good_episode(f"{prefix}/{number}", 0))
        while True:
            response = await client.post(f"{url}/v1/events", content=body)
            statuses.add(response.status_code)
            if response.status_code == 200:
                acknowledged.append(f"{prefix}/{number}")
                return
            assert response.status_code == 503
            assert response.headers["Retry-After"]
            await asyncio.sleep(0.2)

    async def send_while_killing(url: str) -> None:
        async with httpx.AsyncClient(timeout=60, headers=PROTOBUF) as client:
            for first in range(0, 200, 20):
                if first in (40, 120):
                    log = next(part for part in status(fresh_stack) if part.name == "log")
                    assert log.pid is not None
                    os.kill(log.pid, signal.SIGKILL)
                await asyncio.gather(*(send(client, url, first + i) for i in range(20)))

    with serving(create_app(settings(ack_timeout_s=1.0, pause_s=0.2), producer)) as url:
        asyncio.run(send_while_killing(url))
    assert statuses == {200, 503}
    assert len(acknowledged) == 200
    events = events_on(bootstrap, prefix)
    for group_id in acknowledged:
        mine = dict.fromkeys(event.seq for event in events if event.group_id == group_id)
        assert list(mine) == list(range(10)), "complete, and in order"
    producer.close()


def test_a_device_sends_through_the_gateway(broker: str, gateway: str, tmp_path: Path) -> None:
    name = fresh()
    with Device(
        gateway=gateway, token=TOKEN, tenant="acme", producer="tests", spool_dir=tmp_path
    ) as device:
        with device.episode(name, f"{name}/0", task_id="t") as episode:
            episode.act(text="hello")
            episode.verify(success=True, progress=1.0, verifier="tests")
            episode.end()
        report = device.flush(20)
    assert (report.acknowledged, report.spooled, report.refused) == (4, 0, 0)
    assert [event.seq for event in events_on(broker, name)] == [0, 1, 2, 3]


def test_a_device_keeps_its_events_while_the_gateway_says_no(
    deaf_gateway: str, tmp_path: Path
) -> None:
    for token, problem in (("wrong", "401"), (TOKEN, "503")):
        with Device(
            gateway=deaf_gateway,
            token=token,
            tenant="acme",
            producer="tests",
            spool_dir=tmp_path / token,
        ) as device:
            device.episode("g", "e", task_id="t").act(text="hello")
            report = device.flush(1.0)
            assert (report.acknowledged, report.spooled) == (0, 2)
            assert problem in report.problem
            device.close(0.0)


def test_an_event_that_the_gateway_never_takes_is_set_aside(broker: str, tmp_path: Path) -> None:
    producer = Producer(broker)
    name = fresh()
    small = settings(max_body_bytes=4000)
    with (
        serving(create_app(small, producer)) as url,
        Device(
            gateway=url, token=TOKEN, tenant="acme", producer="tests", spool_dir=tmp_path
        ) as device,
    ):
        episode = device.episode(name, f"{name}/0", task_id="t")
        episode.act(text="x" * 5000)
        for _ in range(40):
            episode.act(text="y" * 200)
        report = device.flush(30)
        assert (report.acknowledged, report.spooled, report.refused) == (41, 0, 1)
    assert len(ids_on(broker, name)) == 41
    assert f"{name}/0#1" in (tmp_path / "refused.jsonl").read_text()
    producer.close()


def test_an_open_gateway_stays_on_loopback() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_binding(settings(host=host, tokens={}))
    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::"):
        with pytest.raises(InputError, match="has no tokens"):
            check_binding(settings(host=host, tokens={}))
        with pytest.raises(InputError):
            check_binding(settings(host=host, tokens={"acme": []}))
        check_binding(settings(host=host))


def test_an_open_gateway_serves_its_tenant_and_no_other_name(broker: str) -> None:
    producer = Producer(broker)
    headers = {"Content-Type": "application/x-protobuf"}
    with serving(create_app(settings(tokens={}, open_tenant="acme"), producer)) as url:
        assert post(url, body_of(*good_episode(fresh(), 0)), headers).status_code == 200
        theirs = body_of(*good_episode(fresh(), 0, tenant="other"))
        assert refused(post(url, theirs, headers)) == (403, "WRONG_TENANT", 0)
        rebound = headers | {"Host": "evil.example"}
        assert refused(post(url, b"", rebound)) == (403, "UNKNOWN_HOST", None)
    producer.close()


def test_settings_show_no_token_and_want_digests() -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    assert digest not in repr(settings())
    with pytest.raises(ValueError, match="pattern"):
        settings(tokens={"acme": [TOKEN]})
