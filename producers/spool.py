"""On disk before it is sent, kept until it is acknowledged: a device's events.

A spool is a folder of append-only segments of frames; the first frame of a segment holds the
numbering of all streams, so that the newest segment alone says where each stream goes on.
What is guaranteed:

* An event that `append` returned for survives `kill -9` of the process. It survives a power
  cut after `sync`, which comes before every sending, so that a sent number is never reused.
* A torn last frame (its `append` never returned) is cut off when the spool is opened. A frame
  that is complete and wrong is set aside in a `.damaged` file and counted, never skipped unseen.
* The bound is kept by refusing new events (SpoolFullError), never by dropping old ones. The
  files may take one segment more than the bound.
* No number is used twice: a spool that has lost its numbering is not opened (SpoolDamagedError).
* One process owns a spool (SpoolBusyError for a second one).
"""

import fcntl
import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schemas.errors import InputError, PlanloopError
from schemas.event_pb2 import Event

_log = logging.getLogger(__name__)

_FRAME = struct.Struct(">IIIc")
"""Payload bytes, CRC-32 of those four bytes, CRC-32 of kind and payload, kind."""
_CURSOR = struct.Struct(">QQI")
"""Segment, offset, CRC-32 of the two."""
_NUMBERING = b"N"
_EVENT = b"E"
_REMEMBERED = 256
"""Ended streams that are still known, so that one of them is not begun again."""


class SpoolFullError(PlanloopError):
    """The spool has reached its bound; the event was not taken. Try again once the log is back."""

    exit_status = 3
    failed = "spool"


class SpoolBusyError(InputError):
    """Another process has this spool open."""


class SpoolDamagedError(InputError):
    """The numbering of the streams is lost: going on could use a number twice."""


class Place(NamedTuple):
    """A position in the spool: segment number and byte offset in it."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Window:
    """The oldest events that wait, in order. `end` is the place behind them."""

    events: list[Event]
    end: Place
    bytes: int


class _Frame(NamedTuple):
    kind: bytes
    payload: bytes
    end: int


class Spool:
    """Events that wait for the log, oldest first. Methods may be called from any thread."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._refused = folder / "refused.jsonl"
        self._max_bytes = max_bytes
        self._segment_bytes = max(4096, min(1 << 20, max_bytes // 4))
        self._lock = threading.RLock()
        self._owner = (folder / "lock").open("w")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._owner.close()
            raise SpoolBusyError(f"the spool {folder} is open in another process") from error
        self._open: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._dirty = False
        self._closed = False
        self.waiting = 0
        self.waiting_bytes = 0
        self.damaged = 0
        self._recover()

    def next_seq(self, stream_id: str) -> int:
        """The sequence number that an event of this stream must have now."""
        with self._lock:
            return self._open.get(stream_id) or self._ended.get(stream_id, 0)

    def ended(self, stream_id: str) -> bool:
        with self._lock:
            return stream_id in self._ended

    def append(self, event: Event, *, last: bool) -> None:
        """Keep the next event of its stream; `last` ends the stream.

        Raises SpoolFullError, with nothing kept, at the bound or when the disk is full.
        """
        payload = event.SerializeToString()
        size = _FRAME.size + len(payload)
        with self._lock:
            if self.waiting_bytes + self._refused_bytes() + size > self._max_bytes:
                raise SpoolFullError(
                    f"{self.waiting} events wait in the spool and its bound of "
                    f"{self._max_bytes} bytes is reached",
                    "wait until the log is back, or give the device a larger max_spool_bytes",
                )
            if self._end >= self._segment_bytes:
                self._roll()
            self._write(_EVENT, payload)
            self._count(event.stream_id, event.seq + 1, last)
            self.waiting += 1
            self.waiting_bytes += size

    def window(self, max_events: int, max_bytes: int) -> Window | None:
        """The oldest waiting events within both limits (at least one), None if there are none."""
        with self._lock:
            events: list[Event] = []
            size = 0
            place = self._cursor
            for frame, end in self._frames_from(self._cursor):
                if frame.kind == _EVENT:
                    if events and (
                        len(events) >= max_events or size + len(frame.payload) > max_bytes
                    ):
                        break
                    events.append(Event.FromString(frame.payload))
                    size += _FRAME.size + len(frame.payload)
                place = end
            return Window(events, place, size) if events else None

    def acknowledge(self, window: Window) -> None:
        """Forget a window's events: it must be the one that `window` gave last."""
        with self._lock:
            self._cursor = window.end
            self.waiting -= len(window.events)
            self.waiting_bytes -= window.bytes
            cursor = struct.pack(">QQ", *window.end)
            os.pwrite(self._cursor_file, cursor + struct.pack(">I", zlib.crc32(cursor)), 0)
            for number in self._segments():
                if number < window.end.segment:
                    self._path(number).unlink()

    def set_aside(self, event: Event, reason: str) -> None:
        """Keep an event that the log refused, for a person to look at, beside the spool."""
        raw = event.SerializeToString().hex()
        line = json.dumps({"reason": reason, "event_id": event.event_id, "event": raw})
        with self._lock, self._refused.open("a") as file:
            file.write(line + "\n")

    def _refused_bytes(self) -> int:
        return self._refused.stat().st_size if self._refused.exists() else 0

    def sync(self) -> None:
        """Make everything so far survive a power cut."""
        with self._lock:
            if self._dirty and not self._closed:
                os.fsync(self._file)
                self._dirty = False

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self.sync()
            self._closed = True
            os.close(self._file)
            self._release()

    def _release(self) -> None:
        os.close(self._cursor_file)
        self._owner.close()

    def _recover(self) -> None:
        segments = self._segments()
        self._cursor_file = os.open(self._folder / "cursor", os.O_RDWR | os.O_CREAT, 0o600)
        self._cursor = self._read_cursor(segments)
        for number in segments:
            self._recover_segment(number, newest=number == segments[-1])
        if segments:
            self._use(segments[-1])
        else:
            self._number = 0
            self._create()
            self._cursor = Place(self._number, 0)

    def _recover_segment(self, number: int, newest: bool) -> None:
        """Take over a segment's numbering and its waiting events; cut off what is no frame."""
        data = self._path(number).read_bytes()
        offset = 0
        numbered = False
        for frame in _frames(data):
            if frame.kind == _NUMBERING:
                numbered = True
                state = json.loads(frame.payload)
                self._open, self._ended = state["open"], state["ended"]
            else:
                event = Event.FromString(frame.payload)
                self._count(event.stream_id, event.seq + 1, ends_stream(event))
                if (number, offset) >= self._cursor:
                    self.waiting += 1
                    self.waiting_bytes += frame.end - offset
            offset = frame.end
        if newest and not numbered:
            self._release()
            raise SpoolDamagedError(
                f"the newest segment of the spool {self._folder} is damaged at its start",
                "keep the folder for its events, and go on with another and new episode ids",
            )
        if offset < len(data):
            self._cut(number, data[offset:], offset, newest)
        if self._cursor.segment == number and self._cursor.offset > offset:
            self._cursor = Place(number, offset)

    def _cut(self, number: int, rest: bytes, offset: int, newest: bool) -> None:
        if not (newest and _torn(rest)):
            self.damaged += 1
            self._path(number).with_suffix(f".{offset}.damaged").write_bytes(rest)
            _log.warning("spool segment %d is damaged at byte %d, set aside", number, offset)
        os.truncate(self._path(number), offset)

    def _read_cursor(self, segments: list[int]) -> Place:
        packed = os.pread(self._cursor_file, _CURSOR.size, 0)
        if len(packed) == _CURSOR.size:
            segment, offset, crc = _CURSOR.unpack(packed)
            if crc == zlib.crc32(packed[: _CURSOR.size - 4]) and segment in segments:
                return Place(segment, offset)
        return Place(segments[0] if segments else 0, 0)

    def _frames_from(self, place: Place) -> Iterator[tuple[_Frame, Place]]:
        for number in self._segments():
            if number < place.segment:
                continue
            start = place.offset if number == place.segment else 0
            with self._path(number).open("rb") as file:
                file.seek(start)
                for frame in _frames(file.read()):
                    yield frame, Place(number, start + frame.end)

    def _count(self, stream_id: str, next_seq: int, last: bool) -> None:
        if last:
            self._open.pop(stream_id, None)
            self._ended[stream_id] = next_seq
            while len(self._ended) > _REMEMBERED:
                self._ended.pop(next(iter(self._ended)))
        else:
            self._open[stream_id] = next_seq

    def _write(self, kind: bytes, payload: bytes) -> None:
        frame = _framed(kind, payload)
        try:
            if os.write(self._file, frame) != len(frame):
                raise OSError("short write")
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise SpoolFullError(f"the spool cannot be written: {error}") from error
        self._end += len(frame)
        self._dirty = True

    def _roll(self) -> None:
        self.sync()
        os.close(self._file)
        self._number += 1
        self._create()

    def _create(self) -> None:
        """Begin segment `_number`; it appears under its name once its numbering is in it."""
        state = json.dumps({"open": self._open, "ended": self._ended}).encode()
        draft = self._folder / "draft"
        with draft.open("wb") as file:
            file.write(_framed(_NUMBERING, state))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path(self._number))
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self._use(self._number)

    def _use(self, number: int) -> None:
        self._number = number
        self._file = os.open(self._path(number), os.O_WRONLY | os.O_APPEND)
        self._end = os.fstat(self._file).st_size

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.segment"))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.segment"


def ends_stream(event: Event) -> bool:
    """Whether nothing may follow an event in its stream: an ended episode, a group, a task."""
    return event.WhichOneof("body") in ("episode_ended", "group_opened", "task_specified")


def _framed(kind: bytes, payload: bytes) -> bytes:
    length = struct.pack(">I", len(payload))
    header = _FRAME.pack(len(payload), zlib.crc32(length), zlib.crc32(kind + payload), kind)
    return header + payload


def _frames(data: bytes) -> Iterator[_Frame]:
    """The frames at the start of `data`, up to the first that is incomplete or wrong."""
    offset = 0
    while offset + _FRAME.size <= len(data):
        length, length_crc, crc, kind = _FRAME.unpack_from(data, offset)
        start = offset + _FRAME.size
        payload = data[start : start + length]
        if zlib.crc32(data[offset : offset + 4]) != length_crc or len(payload) < length:
            return
        if zlib.crc32(kind + payload) != crc:
            return
        offset = start + length
        yield _Frame(kind, payload, offset)


def _torn(rest: bytes) -> bool:
    """Whether bytes are the beginning of a frame that was never finished (or never written)."""
    if len(rest) < _FRAME.size or not any(rest):
        return True
    length, length_crc, _, _ = _FRAME.unpack_from(rest)
    return zlib.crc32(rest[:4]) == length_crc and len(rest) < _FRAME.size + length
