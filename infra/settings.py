"""Where the infrastructure is: what the environment says, and the rest from the embedded stack."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.layout import Layout, S3Address
from schemas.errors import InfrastructureAwayError, InputError


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses and credentials of log, object store and warehouse.

    `kafka` is host:port (or a comma-separated list), `s3_endpoint` host:port,
    `warehouse_url` scheme://user:password@host:port/database with scheme http or clickhouse.
    """

    kafka: str
    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    s3_bucket: str
    s3_secure: bool
    warehouse_url: str = field(repr=False)


class Settings(BaseSettings):
    """What a person may set, each as PLANLOOP_<NAME>. What is left unset, `up` provides."""

    model_config = SettingsConfigDict(env_prefix="PLANLOOP_", extra="ignore")

    state: Path = Path(".planloop")
    """Directory of everything that the embedded stack and the engines keep."""
    kafka_bootstrap: str | None = None
    """host:port of a Kafka that runs elsewhere."""
    kafka_home: Path | None = None
    """Unpacked Apache Kafka for `up` to run in place of the embedded broker."""
    s3_endpoint: str | None = None
    """host:port, or http(s)://host:port, of an S3 store that runs elsewhere."""
    s3_access_key: str | None = None
    s3_secret_key: SecretStr | None = None
    s3_bucket: str = "planloop"
    warehouse_url: SecretStr | None = None
    """http(s)://user:password@host:port/database, or clickhouse:// for the native protocol."""
    tenant: str = "local"

    @classmethod
    def load(cls, **overrides: object) -> "Settings":
        """Settings of this process; InputError that names the variable, never its value."""
        try:
            return cls(**overrides)  # pyright: ignore[reportArgumentType]
        except ValidationError as error:
            names = ", ".join(f"PLANLOOP_{part['loc'][0]}".upper() for part in error.errors())
            raise InputError(f"not usable: {names}", "correct or unset it") from None

    def external_s3(self) -> S3Address | None:
        """The S3 store set by hand; InputError where it lacks its keys or is no address."""
        if self.s3_endpoint is None:
            return None
        if self.s3_access_key is None or self.s3_secret_key is None:
            raise InputError(
                "PLANLOOP_S3_ENDPOINT is set without its keys",
                "set PLANLOOP_S3_ACCESS_KEY and PLANLOOP_S3_SECRET_KEY",
            )
        url = self.s3_endpoint if "://" in self.s3_endpoint else f"http://{self.s3_endpoint}"
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("PLANLOOP_S3_ENDPOINT is no host:port and no http(s) address")
        return S3Address(
            parts.netloc,
            self.s3_access_key,
            self.s3_secret_key.get_secret_value(),
            self.s3_bucket,
            secure=parts.scheme == "https",
        )

    def endpoints(self) -> Endpoints:
        """Everything's address: explicit settings win, the rest is the embedded stack's.

        InfrastructureAwayError names what neither knows.
        """
        layout = Layout.load(self.state) or Layout(None, None, None)
        kafka = self.kafka_bootstrap or (layout.log and layout.log.address)
        s3 = self.external_s3() or (layout.objects and layout.objects.store)
        warehouse = layout.warehouse and layout.warehouse.url
        if self.warehouse_url is not None:
            warehouse = self.warehouse_url.get_secret_value()
        if kafka and s3 and warehouse:
            return Endpoints(
                kafka=kafka,
                s3_endpoint=s3.endpoint,
                s3_access_key=s3.access_key,
                s3_secret_key=s3.secret_key,
                s3_bucket=s3.bucket,
                s3_secure=s3.secure,
                warehouse_url=warehouse,
            )
        known = {"log": kafka, "objects": s3, "warehouse": warehouse}
        missing = ", ".join(name for name, address in known.items() if not address)
        raise InfrastructureAwayError(
            "stack", f"no address for {missing} in {self.state}", "run `planloop up`"
        )
