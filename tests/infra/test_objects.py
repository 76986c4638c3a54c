"""The object store client on SeaweedFS."""

import hashlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from infra.objects import ObjectMissingError, ObjectStore
from schemas.errors import CheckFailedError, InfrastructureAwayError, InputError
from tests.infra.servers import ObjectServer, free_port

_numbers = itertools.count()


@pytest.fixture(scope="module")
def store(objects: ObjectServer) -> ObjectStore:
    return ObjectStore(objects.endpoints())


@pytest.fixture
def prefix() -> str:
    return f"test-{next(_numbers)}/"


@pytest.mark.parametrize("size", [0, 1, 5 << 20, (5 << 20) + 1, 64 << 20])
def test_bytes_come_back_as_they_went(store: ObjectStore, prefix: str, size: int) -> None:
    data = os.urandom(size)
    ref = store.put(prefix + "one", data)
    digest = hashlib.sha256(data).hexdigest()
    assert (ref.bucket, ref.key, ref.sha256, ref.bytes) == (
        "planloop", prefix + "one", digest, size,
    )  # fmt: skip
    assert store.get(prefix + "one", digest) == data


def test_the_same_again_changes_nothing(store: ObjectStore, prefix: str) -> None:
    assert store.put(prefix + "one", b"data") == store.put(prefix + "one", b"data")
    assert list(store.list(prefix)) == [(prefix + "one", 4)]


@pytest.mark.parametrize("name", ["a b", "ü😀", "100%", "a+b=c&d", "q?x#y", "deep/er/one.pb"])
def test_names_of_any_letters(store: ObjectStore, prefix: str, name: str) -> None:
    store.put(prefix + name, b"x")
    assert store.get(prefix + name) == b"x"
    assert list(store.list(prefix)) == [(prefix + name, 1)]


def test_what_is_not_there_is_said(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(ObjectMissingError, match=prefix):
        store.get(prefix + "one")
    with pytest.raises(LookupError):
        store.get(prefix + "one")
    assert not store.exists(prefix + "one")
    assert list(store.list(prefix)) == []
    store.put(prefix + "one", b"")
    assert store.exists(prefix + "one")
    store.remove(prefix + "one")
    store.remove(prefix + "one")
    assert not store.exists(prefix + "one")


def test_a_key_that_is_no_key_is_refused(store: ObjectStore) -> None:
    with pytest.raises(InputError, match="no key"):
        store.put("", b"x")


def test_damage_is_found(store: ObjectStore, prefix: str) -> None:
    ref = store.put(prefix + "one", b"as written")
    store.put(prefix + "one", b"as changed")
    with pytest.raises(CheckFailedError, match=prefix):
        store.get(prefix + "one", ref.sha256)


def test_one_of_several_that_cannot_be_written_is_an_error(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(InputError, match="no key"):
        store.put_all([(prefix + "one", b"1"), ("", b"2"), (prefix + "three", b"3")])


def test_lists_are_sorted_and_whole(store: ObjectStore, prefix: str) -> None:
    keys = [
        f"{prefix}{folder}/{number:020}" for folder in ("a", "a-b", "b") for number in range(450)
    ]
    store.put_all([(key, b"x") for key in keys])
    assert list(store.list(prefix)) == [(key, 1) for key in sorted(keys)]
    assert [key for key, _ in store.list(prefix + "a/")] == keys[:450]
    assert len(list(store.list(prefix + "a/0000000000000000044"))) == 10


def test_a_bucket_is_made_on_first_use(objects: ObjectServer) -> None:
    fresh = objects.endpoints(bucket="made-on-first-use")
    with ThreadPoolExecutor(8) as pool:
        refs = pool.map(lambda n: ObjectStore(fresh).put(f"k{n}", b"x"), range(8))
    assert {ref.bucket for ref in refs} == {"made-on-first-use"}
    assert len(list(ObjectStore(fresh).list(""))) == 8


def test_wrong_keys_are_bad_input(objects: ObjectServer) -> None:
    store = ObjectStore(objects.endpoints(secret="wrong one"), patience_s=1)
    with pytest.raises(InputError, match="PLANLOOP_S3_SECRET_KEY") as caught:
        store.get("one")
    assert "wrong one" not in str(caught.value)


def test_nobody_there_is_told_in_bounded_time(objects: ObjectServer) -> None:
    nobody = replace(objects.endpoints(), s3_endpoint=f"127.0.0.1:{free_port()}")
    started = time.monotonic()
    with pytest.raises(InfrastructureAwayError, match="does not answer") as caught:
        ObjectStore(nobody, patience_s=0.5).put("one", b"x")
    assert caught.value.component == "objects"
    assert time.monotonic() - started < 3


def test_nothing_tells_the_secret(
    objects: ObjectServer, caplog: pytest.LogCaptureFixture, prefix: str
) -> None:
    endpoints = objects.endpoints()
    with caplog.at_level(logging.DEBUG):
        store = ObjectStore(endpoints)
        store.put(prefix + "one", b"x")
        with pytest.raises(ObjectMissingError):
            store.get(prefix + "none")
    assert "open sesame" not in caplog.text
    assert "open sesame" not in repr(endpoints) + repr(store) + repr(vars(store))


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ObjectServer]:
    one = ObjectServer(tmp_path)
    one.start()
    yield one
    one.stop()


def test_calls_outlast_kill_9(mortal: ObjectServer) -> None:
    store = ObjectStore(mortal.endpoints(), patience_s=60)
    data = {f"before/{number}": os.urandom(100_000) for number in range(20)}
    for key, one in data.items():
        store.put(key, one)
    mortal.kill()
    back = threading.Timer(0.5, mortal.start)
    back.start()
    assert store.get("before/19") == data["before/19"]
    store.put("after", b"x")
    back.join()
    assert {key: store.get(key) for key, _ in store.list("before/")} == data
    assert store.get("after") == b"x"
