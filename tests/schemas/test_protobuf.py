"""What protobuf itself does and does not do: the facts that the edge is built upon."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from schemas.event_pb2 import Event, EventBatch
from schemas.rollout_pb2 import ActionKind, ActionTaken
from tests.builders import good_episode

ROOT = Path(__file__).parents[2]


def test_an_unknown_enum_number_survives_but_has_no_name() -> None:
    action = ActionTaken.FromString(b"\x08\x63")
    assert action.kind == 99
    assert action.SerializeToString() == b"\x08\x63"
    assert json_format.MessageToDict(action)["kind"] == 99
    with pytest.raises(ValueError):
        ActionKind.Name(action.kind)


def test_nothing_and_almost_anything_parse() -> None:
    assert Event.FromString(b"") == Event()
    assert EventBatch.FromString(b"\x18\x01").ByteSize() == 2
    assert list(EventBatch.FromString(b"\x08\x01").events) == []


def test_text_is_utf8_with_any_character_in_it() -> None:
    event = Event(stream_id="a\0b")
    assert Event.FromString(event.SerializeToString()).stream_id == "a\0b"
    with pytest.raises(UnicodeEncodeError):
        event.stream_id = "\ud800"
    with pytest.raises(DecodeError):
        Event.FromString(b"\x0a\x03\xed\xa0\x80")


def test_integers_are_bounded_by_their_type_only() -> None:
    event = Event(seq=2**64 - 1)
    assert Event.FromString(event.SerializeToString()).seq == 2**64 - 1
    with pytest.raises(ValueError):
        event.seq = 2**64
    with pytest.raises(ValueError):
        event.occurred_at = 2**63


def test_not_a_number_travels() -> None:
    action = ActionTaken(logprobs=[float("nan"), float("inf")])
    read = ActionTaken.FromString(action.SerializeToString()).logprobs
    assert read[0] != read[0]
    assert read[1] == float("inf")


def test_unknown_fields_survive_a_round_trip() -> None:
    raw = good_episode("grp-1", 0)[1].SerializeToString() + b"\xfa\x3f\x03abc"
    assert b"\xfa\x3f\x03abc" in Event.FromString(raw).SerializeToString()
    batch = EventBatch(events=[Event.FromString(raw)])
    assert EventBatch.FromString(batch.SerializeToString()).events[0].SerializeToString() == (
        Event.FromString(raw).SerializeToString()
    )


_LOAD = """
import hashlib, json
import google.protobuf
from schemas.batch import Batch, encode
from schemas.topics import CATALOGUE, ROLLOUTS
from tests.builders import good_group
from tests.hostile import hostile_records
import schemas.evolution
values = [(record.key, record.value) for record in hostile_records()]
batches = [Batch(value, key, ROLLOUTS) for key, value in values]
print(json.dumps({
    "version": google.protobuf.__version__,
    "topics": len(CATALOGUE),
    "refusals": [[(at, refusal.reason) for at, refusal in batch.refusals] for batch in batches],
    "runs": hashlib.sha256(repr([batch.runs for batch in batches]).encode()).hexdigest(),
    "bytes": hashlib.sha256(encode(good_group("grp-1"))).hexdigest(),
}))
"""


def _load(path: Path) -> dict[str, object]:
    environment = {"PYTHONPATH": f"{path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", _LOAD], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_package_works_alike_on_protobuf_5_29(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    installed = subprocess.run(
        [*pip, str(tmp_path), "protobuf==5.29.*"], capture_output=True, text=True, check=False
    )
    if installed.returncode != 0:
        pytest.skip(f"protobuf 5.29 cannot be installed here: {installed.stderr[-200:]}")
    old, current = _load(tmp_path), _load(ROOT)
    assert str(old.pop("version")).startswith("5.29.")
    assert not str(current.pop("version")).startswith("5.")
    assert old == current
