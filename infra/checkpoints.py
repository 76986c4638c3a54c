"""Snapshots of an engine's partitions as files: whole or not there, and durable once saved."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import InputError


class FileCheckpoints:
    """One file a partition below `folder`, which one process at a time may own.

    Raises InputError when another living process owns it; the lock of a killed process
    is gone with it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(
                f"another process works on {folder}",
                "wait for it, stop it, or use another --state",
            ) from None

    def load(self, partition: int) -> bytes | None:
        try:
            return self._path(partition).read_bytes()
        except FileNotFoundError:
            return None

    def save(self, snapshots: Mapping[int, bytes]) -> None:
        """Write the snapshots: each replaces the one before in one step, after it is on disk."""
        for partition, snapshot in snapshots.items():
            path = self._path(partition)
            draft = path.with_suffix(".draft")
            with draft.open("wb") as file:
                file.write(snapshot)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        self._lock.close()

    def _path(self, partition: int) -> Path:
        return self._folder / f"{partition}.snapshot"
