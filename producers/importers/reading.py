"""Reading another system's log file: its bytes, its digest, its JSON with typed records.

The digest is taken over the uncompressed content, so that a file keeps its identity when
it is renamed, compressed or unpacked.
"""

import gzip
import hashlib
import json
import math
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from producers.importers.imported import Finding, ImportRefusedError
from schemas.errors import InputError

MAX_CONTENT_BYTES = 2 * 1024**3
"""Largest uncompressed content; a small .gz file cannot fill the memory."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Content:
    """The uncompressed bytes of a file and their SHA-256 in lower-case hex."""

    source: str
    data: bytes
    digest: str


def read_content(path: Path) -> Content:
    """The content of a .json or .json.gz file (told apart by its first bytes, not its name).

    Raises InputError if the file cannot be opened and ImportRefusedError if its compression is
    broken or it is too large.
    """
    data = _read(path, MAX_CONTENT_BYTES + 1)
    if len(data) > MAX_CONTENT_BYTES:
        raise _refused(path.name, f"more than {MAX_CONTENT_BYTES} bytes of content")
    return Content(path.name, data, hashlib.sha256(data).hexdigest())


def read_head(path: Path) -> bytes:
    """The first kilobytes of the content; raises as `read_content` does."""
    return _read(path, 1 << 16)


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            return file.read(limit)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _refused(path.name, f"broken gzip: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror}") from error


def decode(content: Content, shape: type[T]) -> T:
    """The content as `shape`. ImportRefusedError for what is not JSON or not of that shape:
    truncated, NaN literals, lone surrogates, bytes that are not UTF-8, a field of another type.
    """
    try:
        return msgspec.json.decode(content.data, type=shape)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise ImportRefusedError(
            content.source, [Finding(where.strip("`") or "$", what)]
        ) from error
    except msgspec.DecodeError as error:
        raise _refused(content.source, f"not JSON: {_why_not_json(content.data, error)}") from error
    except RecursionError as error:
        raise _refused(content.source, "nested too deeply") from error


def _why_not_json(data: bytes, quick: msgspec.DecodeError) -> str:
    """A reason with its place, found with the slow reader since it is said once."""
    try:
        json.loads(data, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return f"{error.msg} (line {error.lineno}, column {error.colno})"
    except (ValueError, RecursionError) as error:
        return str(error)
    if re.search(rb"\\u[dD][89a-fA-F]", data):
        return "a lone surrogate in a string"
    return str(quick)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _refused(source: str, what: str) -> ImportRefusedError:
    return ImportRefusedError(source, [Finding("$", what)])


def reward_problem(reward: Any) -> str:
    """What is wrong with a reward, empty if it is a number in [0, 1]."""
    if reward is msgspec.UNSET or reward is None:
        return "no reward"
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        return f"the reward is not a finite number: {type(reward).__name__}"
    if not 0 <= reward <= 1:
        return f"the reward {reward} is outside [0, 1]"
    return ""
