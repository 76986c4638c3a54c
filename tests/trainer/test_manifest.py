import json

import pytest

from schemas.errors import InputError
from schemas.event_pb2 import Event
from trainer.manifest import Manifest, load, save

MANIFEST = Manifest(
    policy_version="p-000002-1f3a9c00",
    update=2,
    optimiser="policies/p-000002-1f3a9c00/optimizer.safetensors",
    seed=5,
    schedule_version="phi-1",
    positions={"planloop.groups/0": 17},
    outbox=[Event(stream_id="s", event_id="s#0").SerializeToString().hex()],
)


def test_round_trip(tmp_path):
    path = tmp_path / "state" / "manifest.json"
    assert load(path) is None
    save(path, MANIFEST)
    loaded = load(path)
    assert loaded is not None
    assert loaded == MANIFEST
    assert loaded.events == [Event(stream_id="s", event_id="s#0")]
    assert [entry.name for entry in path.parent.iterdir()] == ["manifest.json"]


def test_half_a_successor_leaves_the_old_one(tmp_path):
    path = tmp_path / "manifest.json"
    save(path, MANIFEST)
    (tmp_path / "manifest.next").write_text('{"format": 1, "upd')
    assert load(path) == MANIFEST


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:40], "damaged"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "not a manifest of format 1"),
        (lambda text: json.dumps({"format": 1, "update": 2}), "lacks"),
        (lambda text: "[]", "not a manifest"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path, change, message):
    path = tmp_path / "manifest.json"
    save(path, MANIFEST)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message):
        load(path)
