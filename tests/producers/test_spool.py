import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.spool import Spool, SpoolBusyError, SpoolDamagedError, SpoolFullError
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import TERMINATION_DONE

MEGABYTE = 1 << 20


def event(seq: int, stream_id: str = "e", size: int = 100) -> Event:
    stream = Stream(stream_id, tenant="t", producer="p", group_id="g", next_seq=seq)
    made = stream.event(1_767_225_600_000_000)
    made.observation_received.content = "x" * size
    return made


def ids(spool: Spool) -> list[str]:
    """Everything that waits, taken out in order."""
    found: list[str] = []
    while window := spool.window(7, MEGABYTE):
        found += [waiting.event_id for waiting in window.events]
        spool.acknowledge(window)
    return found


def fill(spool: Spool, count: int, size: int = 100) -> None:
    for _ in range(count):
        spool.append(event(spool.next_seq("e"), size=size), last=False)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.segment"))


def test_events_leave_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    fill(spool, 20)
    assert spool.waiting == 20
    assert ids(spool) == [f"e#{seq}" for seq in range(20)]
    assert (spool.waiting, spool.waiting_bytes) == (0, 0)
    spool.close()


def test_a_window_that_is_not_acknowledged_comes_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    fill(spool, 5)
    first = spool.window(3, MEGABYTE)
    assert first == spool.window(3, MEGABYTE)
    assert first is not None
    spool.acknowledge(first)
    assert ids(spool) == ["e#3", "e#4"]
    spool.close()


def test_windows_keep_to_their_bytes_but_are_never_empty(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    fill(spool, 4, size=1000)
    window = spool.window(100, 2500)
    assert window is not None
    assert len(window.events) == 2
    window = spool.window(100, 10)
    assert window is not None
    assert len(window.events) == 1
    spool.close()


def test_the_bound_refuses_new_events_and_keeps_old_ones(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 20_000)
    with pytest.raises(SpoolFullError, match="bound of 20000 bytes"):
        fill(spool, 1000)
    kept = spool.waiting
    assert 50 < kept < 200
    assert spool.next_seq("e") == kept, "a refused event takes no number"
    assert ids(spool) == [f"e#{seq}" for seq in range(kept)]
    fill(spool, 1)
    assert ids(spool) == [f"e#{kept}"]
    spool.close()


def test_the_disk_stays_bounded_however_much_passes_through(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 64 * 1024)
    for _ in range(60):
        fill(spool, 50)
        ids(spool)
    used = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert used < 2 * 64 * 1024
    spool.close()


def test_numbering_goes_on_after_a_restart_although_everything_was_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 64 * 1024)
    fill(spool, 300)
    ended = event(0, "done")
    ended.episode_ended.termination = TERMINATION_DONE
    spool.append(ended, last=True)
    ids(spool)
    fill(spool, 300)
    ids(spool)
    assert len(segments(tmp_path)) < 3, "acknowledged segments are gone"
    spool.close()
    spool = Spool(tmp_path, 64 * 1024)
    assert spool.next_seq("e") == 600
    assert spool.ended("done")
    assert spool.waiting == 0
    spool.close()


def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    fill(spool, 10)
    window = spool.window(4, MEGABYTE)
    assert window is not None
    spool.acknowledge(window)
    spool.close()
    spool = Spool(tmp_path, MEGABYTE)
    assert spool.waiting == 6
    assert ids(spool) == [f"e#{seq}" for seq in range(4, 10)]
    spool.close()


def test_a_lost_cursor_repeats_but_never_skips(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    fill(spool, 10)
    window = spool.window(4, MEGABYTE)
    assert window is not None
    spool.acknowledge(window)
    spool.close()
    (tmp_path / "cursor").write_bytes(b"\xff" * 20)
    spool = Spool(tmp_path, MEGABYTE)
    assert ids(spool) == [f"e#{seq}" for seq in range(10)]
    spool.close()


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(1, 300))
def test_a_torn_last_frame_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder, MEGABYTE)
    (segment,) = segments(folder)
    ends: list[int] = []
    for _ in range(5):
        fill(spool, 1)
        ends.append(segment.stat().st_size)
    spool.close()
    os.truncate(segment, ends[-1] - cut)
    spool = Spool(folder, MEGABYTE)
    whole = sum(end <= ends[-1] - cut for end in ends)
    assert (spool.waiting, spool.damaged) == (whole, 0)
    fill(spool, 2)
    assert ids(spool) == [f"e#{seq}" for seq in range(whole + 2)]
    spool.close()


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_changed_byte_is_never_skipped_unseen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder, MEGABYTE)
    (segment,) = segments(folder)
    numbering = segment.stat().st_size
    fill(spool, 6)
    spool.close()
    content = bytearray(segment.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    segment.write_bytes(content)
    try:
        spool = Spool(folder, MEGABYTE)
    except SpoolDamagedError:
        assert place < numbering, "without its numbering a spool is not opened"
        assert segment.read_bytes() == bytes(content)
        return
    assert spool.damaged == 1
    (damaged,) = folder.glob("*.damaged")
    assert segment.read_bytes() + damaged.read_bytes() == bytes(content)
    found = ids(spool)
    assert found == [f"e#{seq}" for seq in range(len(found))]
    spool.close()


def test_a_cursor_beyond_a_cut_segment_skips_nothing_new(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    fill(spool, 3)
    kept = segments(tmp_path)[0].stat().st_size
    fill(spool, 3)
    assert len(ids(spool)) == 6
    spool.close()
    os.truncate(segments(tmp_path)[0], kept)
    spool = Spool(tmp_path, MEGABYTE)
    spool.append(event(spool.next_seq("e")), last=False)
    assert ids(spool) == ["e#3"]
    spool.close()


def test_one_process_owns_a_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEGABYTE)
    with pytest.raises(SpoolBusyError):
        Spool(tmp_path, MEGABYTE)
    spool.close()
    Spool(tmp_path, MEGABYTE).close()


def test_a_full_disk_is_a_refusal_not_a_torn_frame(tmp_path: Path) -> None:
    # A file size limit in a process of its own is a disk that fills up.
    script = """
import resource, signal, sys
from pathlib import Path
from producers.spool import Spool, SpoolFullError
from tests.producers.test_spool import fill, ids
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool = Spool(Path(sys.argv[1]), 1 << 20)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    fill(spool, 100)
except SpoolFullError:
    print(spool.waiting, len(ids(spool)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    waiting, read = done.stdout.split()
    assert waiting == read != "0"


def test_a_killed_process_loses_nothing_that_append_returned_for(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from producers.spool import Spool
from tests.producers.test_spool import event
spool = Spool(Path(sys.argv[1]), 1 << 24)
while True:
    seq = spool.next_seq("e")
    spool.append(event(seq), last=False)
    sys.stdout.write(f"{seq}\\n")
    sys.stdout.flush()
"""
    said = -1
    for round_ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said = int(line)
                if said > 400 * (round_ + 1):
                    process.send_signal(signal.SIGKILL)
                    break
            rest = process.stdout.read().split()
            said = int(rest[-1]) if rest else said
    spool = Spool(tmp_path, 1 << 24)
    found = ids(spool)
    assert found == [f"e#{seq}" for seq in range(len(found))]
    assert len(found) > said
    assert spool.damaged == 0
    spool.close()
