"""The embedded object store: SeaweedFS in one process, S3 on loopback, one pair of keys."""

import sys
from io import BytesIO
from pathlib import Path

import msgspec
import urllib3
from minio import Minio
from minio.error import MinioException
from urllib3.exceptions import HTTPError

from infra.layout import LOOPBACK, ObjectsLayout, S3Address, write_private
from infra.parts.part import Command, private_folder

INNER: tuple[str, ...] = ("master", "volume", "filer", "admin")
"""What `weed mini` listens on beside S3. Each is given a port: the defaults are fixed numbers,
which a second state directory on the machine would share."""

GRPC_ABOVE = 10_000
"""Each, S3 included, speaks gRPC this much above its port. Parts of SeaweedFS reckon with that."""


_PROBE = "stack/ready"


class Objects:
    """`weed mini` over a folder of the state directory."""

    name = "objects"
    stop_s = 10.0
    stands_on = None

    def __init__(self, state: Path, layout: ObjectsLayout) -> None:
        self.port = layout.port
        self._folder = state / "objects"
        self._layout = layout

    def command(self) -> Command:
        private_folder(self._folder)
        data = private_folder(self._folder / "data")
        identities = self._folder / "s3.json"
        write_private(identities, self._identities())
        ports = [f"-{name}.port={port}" for name, port in self._layout.inner.items()]
        return Command(
            [
                str(Path(sys.executable).with_name("weed")),
                "-logtostderr=true",
                "mini",
                f"-dir={data}",
                f"-ip={LOOPBACK}",
                f"-ip.bind={LOOPBACK}",
                f"-s3.port={self.port}",
                *ports,
                f"-s3.config={identities}",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-webdav=false",
                "-admin.ui=false",
                "-master.telemetry=false",
                "-volume.preStopSeconds=0",
            ]
        )

    def ready(self) -> bool:
        return takes_objects(self._layout.store)

    def _identities(self) -> bytes:
        return msgspec.json.encode(
            {
                "identities": [
                    {
                        "name": "planloop",
                        "credentials": [
                            {
                                "accessKey": self._layout.access_key,
                                "secretKey": self._layout.secret_key,
                            }
                        ],
                        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                    }
                ]
            }
        )


def takes_objects(store: S3Address) -> bool:
    """Whether the store takes an object now. Makes the bucket where it is missing."""
    client = Minio(
        store.endpoint,
        store.access_key,
        store.secret_key,
        secure=store.secure,
        region="us-east-1",
        http_client=urllib3.PoolManager(retries=False, timeout=1.0),
    )
    try:
        if not client.bucket_exists(store.bucket):
            client.make_bucket(store.bucket)
        # A gateway may answer before there is a volume to write to.
        client.put_object(store.bucket, _PROBE, BytesIO(b"ready"), len(b"ready"))
    except (MinioException, HTTPError):
        return False
    return True
