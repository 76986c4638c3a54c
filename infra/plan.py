"""What `up` starts: settings, and what the state directory was made for, turned into a layout."""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

from infra.layout import Layout, LogLayout, ObjectsLayout, S3Address, WarehouseLayout, free_ports
from infra.parts.kafka import find_jars, find_java
from infra.parts.objects import GRPC_ABOVE, INNER
from infra.settings import Settings
from schemas.errors import InputError


def plan(settings: Settings, known: Layout | None) -> Layout:
    """The layout to run: what is set by hand is left out, ports and secrets stay as `known`.

    InputError where the settings would leave a log behind that the state directory has: its
    events, and every position in checkpoints and tables, belong to that one log.
    """
    known = known or Layout(None, None, None)
    ports = iter(free_ports(4 + len(INNER), above=GRPC_ABOVE))
    external = settings.external_s3()
    objects = None if external else known.objects or _objects(settings.s3_bucket, ports)
    log = None
    if settings.kafka_bootstrap is None:
        store = external or (objects and objects.store)
        assert store is not None
        log = _log(settings, known.log, store, ports)
    warehouse = None
    if settings.warehouse_url is None:
        warehouse = known.warehouse or WarehouseLayout(next(ports), secrets.token_urlsafe(24))
    return Layout(objects, log, warehouse)


def _objects(bucket: str, ports: Iterator[int]) -> ObjectsLayout:
    port = next(ports)
    inner = {name: next(ports) for name in INNER}
    return ObjectsLayout(port, inner, secrets.token_hex(10), secrets.token_urlsafe(30), bucket)


def _log(
    settings: Settings, known: LogLayout | None, store: S3Address, ports: Iterator[int]
) -> LogLayout:
    home = str(settings.kafka_home.resolve()) if settings.kafka_home else ""
    if known is not None and known.kind == "tansu" and home:
        raise InputError(
            f"the log in {settings.state} is the embedded broker's",
            "unset PLANLOOP_KAFKA_HOME, or use another --state for Kafka",
        )
    if home or (known is not None and known.kind == "kafka"):
        return _kafka(home, known, ports)
    if known is None:
        return LogLayout("tansu", next(ports), store)
    before = known.store
    if before and (before.endpoint, before.bucket) != (store.endpoint, store.bucket):
        raise InputError(
            f"the log in {settings.state} is in {before}, the settings say {store}",
            "set PLANLOOP_S3_ENDPOINT and PLANLOOP_S3_BUCKET as before, or use another --state",
        )
    return LogLayout("tansu", known.port, store)


def _kafka(home: str, known: LogLayout | None, ports: Iterator[int]) -> LogLayout:
    """Kafka from `home`; from where it was last time if that is empty."""
    if known is None:
        broker, controller = next(ports), next(ports)
        cluster = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        known = LogLayout("kafka", broker, home=home, controller=controller, cluster=cluster)
    find_java()
    find_jars(Path(home or known.home))
    return LogLayout(
        "kafka",
        known.port,
        home=home or known.home,
        controller=known.controller,
        cluster=known.cluster,
    )
