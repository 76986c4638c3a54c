"""Whole objects in an S3 store: archive segments, records, policies, what is too large for the log.

Objects are written once under a name that says what is in them, so writing the same again changes
nothing and every call may be repeated. A key is never a prefix of another key up to a `/`: some
stores keep keys as files in folders.
"""

import hashlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import urllib3
from minio import Minio
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError

from infra.patience import AwayError, patiently
from infra.settings import Endpoints
from schemas.errors import CheckFailedError, InputError, PlanloopError
from schemas.training_pb2 import ObjectRef

T = TypeVar("T")

_MISSING = {"NoSuchKey", "ResourceNotFound"}
_BUSY = {"InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted"}
_REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed"}
_MADE_MEANWHILE = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}
_LEAST_PART_BYTES = 5 << 20
_AT_A_TIME = 8


class ObjectMissingError(PlanloopError, LookupError):
    """The store has no object of this key."""

    failed: ClassVar[str] = "objects"


class ObjectStore:
    """One bucket, made on first use. Threads may share one.

    Every method raises InfrastructureAwayError("objects") when the store does not answer within
    about `patience_s` seconds, and InputError when it refuses the keys of access.
    """

    def __init__(
        self, endpoints: Endpoints, *, patience_s: float = 30.0, timeout_s: float = 60.0
    ) -> None:
        self._endpoint = endpoints.s3_endpoint
        self._bucket = endpoints.s3_bucket
        self._patience_s = patience_s
        self._client = Minio(
            endpoints.s3_endpoint,
            endpoints.s3_access_key,
            endpoints.s3_secret_key,
            secure=endpoints.s3_secure,
            region="us-east-1",  # any name, so that the client does not ask for it
            http_client=urllib3.PoolManager(
                maxsize=16,
                retries=False,
                timeout=urllib3.Timeout(connect=5.0, read=timeout_s),
            ),
        )
        self._bucket_known = False
        self._making = threading.Lock()

    def put(self, key: str, data: bytes) -> ObjectRef:
        """Write `data` under `key`, in one request; whole or not at all."""

        def send() -> None:
            self._client.put_object(
                self._bucket,
                key,
                io.BytesIO(data),
                len(data),
                part_size=max(len(data), _LEAST_PART_BYTES),
            )

        self._patiently(key, send)
        digest = hashlib.sha256(data).hexdigest()
        return ObjectRef(bucket=self._bucket, key=key, sha256=digest, bytes=len(data))

    def put_all(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Write several objects, some at a time; all are there on return. Raises what the first
        failure raised, with the others written or not."""
        with ThreadPoolExecutor(_AT_A_TIME, "objects") as threads:
            for _ in threads.map(lambda item: self.put(*item), objects):
                pass

    def get(self, key: str, sha256: str | None = None) -> bytes:
        """The bytes under `key`. Raises ObjectMissingError, and CheckFailedError when they do not
        have the digest `sha256`."""

        def receive() -> bytes:
            answer = self._client.get_object(self._bucket, key)
            try:
                return answer.read()
            finally:
                answer.close()
                answer.release_conn()

        data = self._patiently(key, receive)
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise CheckFailedError(f"objects: {key} is not what its digest says")
        return data

    def exists(self, key: str) -> bool:
        try:
            self._patiently(key, lambda: self._client.stat_object(self._bucket, key))
        except ObjectMissingError:
            return False
        return True

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(key, bytes) of every object whose key starts with `prefix`, sorted by key."""

        def receive() -> list[tuple[str, int]]:
            found = self._client.list_objects(self._bucket, prefix=prefix, recursive=True)
            return [(item.object_name or "", item.size or 0) for item in found if not item.is_dir]

        # Sorted here: stores that keep folders list `a/b` before `a-b`.
        return iter(sorted(self._patiently(prefix, receive)))

    def remove(self, key: str) -> None:
        """Remove the object; one that is not there is removed already."""
        self._patiently(key, lambda: self._client.remove_object(self._bucket, key))

    def _patiently(self, key: str, call: Callable[[], T]) -> T:
        return patiently("objects", lambda: self._attempt(key, call), self._patience_s)

    def _attempt(self, key: str, call: Callable[[], T]) -> T:
        try:
            self._make_bucket()
            return call()
        except ValueError as error:
            raise InputError(f"objects: {key!r} is no key: {error}") from error
        except HTTPError as error:
            raise AwayError(f"{self._endpoint} does not answer ({type(error).__name__})") from error
        except (ServerError, InvalidResponseError) as error:
            raise AwayError(f"{self._endpoint} is not ready: {error}") from error
        except S3Error as error:
            if error.code in _MISSING:
                raise ObjectMissingError(f"objects: no object {key!r} in {self._bucket}") from error
            if error.code == "NoSuchBucket":  # somebody is making it, or has removed it
                self._bucket_known = False
                raise AwayError(f"{self._endpoint} has no bucket {self._bucket}") from error
            if error.code in _BUSY:
                raise AwayError(f"{self._endpoint} is not ready: {error.code}") from error
            if error.code in _REFUSED:
                raise InputError(
                    f"objects: {self._endpoint} refuses access ({error.code})",
                    "check PLANLOOP_S3_ACCESS_KEY and PLANLOOP_S3_SECRET_KEY",
                ) from error
            raise PlanloopError(f"objects: {key!r}: {error.code}: {error.message}") from error

    def _make_bucket(self) -> None:
        if self._bucket_known:
            return
        with self._making:
            try:
                if not self._client.bucket_exists(self._bucket):
                    self._client.make_bucket(self._bucket)
            except S3Error as error:
                if error.code not in _MADE_MEANWHILE:
                    raise
            self._bucket_known = True
