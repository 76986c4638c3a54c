"""An object store in a dict, for tests that need bytes kept and nothing of S3."""

from collections.abc import Iterator
from hashlib import sha256

from infra.objects import ObjectMissingError
from schemas.training_pb2 import ObjectRef


class MemoryStore:
    """The part of `infra.objects.ObjectStore` that consumers use."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> ObjectRef:
        self.objects[key] = bytes(data)
        return ObjectRef(key=key, sha256=sha256(data).hexdigest(), bytes=len(data))

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissingError(key)
        return self.objects[key]

    def exists(self, key: str) -> bool:
        return key in self.objects

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        for key in sorted(self.objects):
            if key.startswith(prefix):
                yield key, len(self.objects[key])

    def remove(self, key: str) -> None:
        del self.objects[key]
