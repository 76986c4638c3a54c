"""Names that are minted from content: the same content always gets the same name."""

import hashlib
from collections.abc import Sequence


def short_digest(content: bytes, characters: int = 10) -> str:
    """The first hex digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:characters]


def mint(parts: Sequence[str]) -> str:
    """Ten hex digits that stand for all parts together."""
    return short_digest("\0".join(parts).encode())


def readable(name: str) -> str:
    """A task's own name where it is short and plain, else ten hex digits that stand for it."""
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain and len(name) <= 40 else short_digest(name.encode())
