"""The main job on 200 real rollouts, then everything that an auditor would ask of it."""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.archive import read_archive, segments, write_segment
from infra.log import Record
from infra.objects import ObjectStore
from schemas.batch import Batch
from schemas.scoring_pb2 import MemberScored
from schemas.topics import GROUPS
from tests.conftest import REPOSITORY, kafka_settings
from tests.system.command import Planloop, tables

AIRLINE = REPOSITORY.parent / "shared" / "data" / "tau-bench" / "gpt-4o-airline.json.gz"


@pytest.fixture(scope="module", params=["tansu", pytest.param("kafka", marks=pytest.mark.kafka)])
def planloop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Planloop]:
    """A state directory in which the main job has run once."""
    if not AIRLINE.exists():
        pytest.skip(f"the real log is not at {AIRLINE}")
    state = tmp_path_factory.mktemp("run")
    home = kafka_settings(state).kafka_home if request.param == "kafka" else None
    command = Planloop(state, home)
    try:
        command("run", "--log", str(AIRLINE))
        yield command
    finally:
        command("down")


def test_the_groups_are_those_of_the_log(planloop: Planloop):
    (counts,) = planloop.rows(
        "SELECT count() AS groups, countIf(size = 4 AND valid = 4) AS whole,"
        " countIf(regime = 'progress') AS progress, countIf(regime = 'outcome') AS outcome,"
        " countIf(regime = 'efficiency') AS efficiency FROM groups"
    )
    assert counts == {
        "groups": 50,
        "whole": 50,
        "progress": 14,
        "outcome": 22,
        "efficiency": 14,
    }
    (episodes,) = planloop.rows("SELECT count() AS all, countIf(success) AS good FROM episodes")
    assert episodes == {"all": 200, "good": 84}
    assert planloop.rows("SELECT count() AS calls FROM tool_calls") == [{"calls": 1164}]
    published = planloop.rows("SELECT policy FROM policies ORDER BY update")
    assert len(published) == 3  # the start, after fine-tuning, after the CARE update


def test_the_same_again_adds_nothing(planloop: Planloop):
    before = tables(planloop)
    summary = planloop.json("run", "--log", str(AIRLINE))
    assert summary["imported"]["new"] == 0
    assert summary["imported"]["known"] == summary["imported"]["events"]
    assert summary["trained"]["batches"] == []
    assert tables(planloop) == before


def test_everything_is_proven_and_one_flipped_byte_is_named(planloop: Planloop):
    report = planloop.json("verify")
    assert report["ok"]
    assert report["checked"]["group_scored"] == 50
    store = ObjectStore(planloop.endpoints)
    (segment, *_) = segments(store, GROUPS.name, 0)
    whole = store.get(segment.key)
    records = [
        one for batch in read_archive(store, GROUPS.name, 0, 0, segment.last) for one in batch
    ]
    flipped, event_id = flip_a_reward(records)
    write_segment(store, GROUPS.name, 0, segment.first, segment.last, flipped)
    try:
        findings = planloop.json("verify", status=1)["findings"]
        assert [finding["where"] for finding in findings if finding["kind"] == "differs"] == [
            event_id
        ]
        assert "].reward:" in findings[0]["detail"]
    finally:
        store.put(segment.key, whole)
    assert planloop.json("verify")["ok"]


def flip_a_reward(records: list[Record]) -> tuple[list[Record], str]:
    """The records with one bit of one member's reward flipped, and the event that holds it."""
    for place, record in enumerate(records):
        batch = Batch(record.value, record.key, GROUPS)
        for position in range(len(batch)):
            event = batch.event(position)
            for member in event.group_scored.members:
                if 0.0 < member.reward < 1.0 and member.reward != event.group_scored.success_rate:
                    value, raw = record.value or b"", batch.raw(position)
                    at = value.index(raw) + raw.index(
                        _REWARD_TAG + struct.pack("<d", member.reward)
                    )
                    at += len(_REWARD_TAG)
                    wrong = value[:at] + bytes((value[at] ^ 1,)) + value[at + 1 :]
                    where = (record.topic, record.partition, record.offset)
                    changed = Record(*where, record.key, wrong, record.timestamp)
                    return [*records[:place], changed, *records[place + 1 :]], event.event_id
    raise AssertionError("no reward to flip")


_REWARD_TAG = bytes((MemberScored.REWARD_FIELD_NUMBER << 3 | 1,))
"""What precedes a reward on the wire: its field, 64 bits."""


def test_a_lost_warehouse_comes_back_as_it_was(planloop: Planloop):
    before = tables(planloop)
    planloop("down")
    shutil.rmtree(planloop.state / "warehouse")
    planloop("up")
    report = planloop.json("replay", "--rebuild")
    assert {table["table"]: table["after"]["rows"] for table in report} == {
        table: rows for table, (rows, _) in before.items()
    }
    assert tables(planloop) == before
    assert all(table["equal"] for table in planloop.json("replay", "--rebuild"))


def test_a_replayed_group_is_the_recorded_one(planloop: Planloop):
    (first,) = planloop.rows("SELECT group_id, reward_std FROM groups ORDER BY group_id LIMIT 1")
    scored = planloop.json("replay", "--group", first["group_id"])
    assert scored["groupId"] == first["group_id"]
    assert scored["groupScored"].get("rewardStd", 0.0) == first["reward_std"]


def test_commands_say_what_is_wrong_by_status_and_in_words(planloop: Planloop, tmp_path: Path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text('[{"task_id": 0, "traj": []}]')
    refused = planloop.json("import", "tau-bench", str(wrong), status=2)
    assert refused["failed"] == "import"
    assert "nothing was sent" in refused["error"]
    assert planloop.json("run", "--log", str(tmp_path / "absent"), status=2)["failed"] == "input"
    nowhere = Planloop(tmp_path / "nowhere")
    assert nowhere.json("sql", "SELECT 1", status=3)["failed"] == "infrastructure"
    assert planloop.json("sql", "SELECT nonsense", status=1)["failed"] == "warehouse"
    status = planloop.json("status")
    assert {part["state"] for part in status["parts"]} == {"running"}
    assert all(topic["lag"] == 0 for topic in status["lag"])
