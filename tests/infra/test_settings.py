"""Settings, endpoints, and the plan of a stack."""

import stat
from pathlib import Path

import pytest

from infra.layout import Layout, write_private
from infra.plan import plan
from infra.settings import Endpoints, Settings
from schemas.errors import InfrastructureAwayError, InputError
from tests.conftest import settings_of

S3 = {"s3_endpoint": "store:9000", "s3_access_key": "reader", "s3_secret_key": "s3-secret"}
WAREHOUSE = "clickhouse://planloop:wh-secret@house:9000/planloop"


def external(state: Path, **changes: object) -> Settings:
    values = {**S3, "kafka_bootstrap": "k1:9092,k2:9092", "warehouse_url": WAREHOUSE}
    return Settings(state=state, **{**values, **changes})  # pyright: ignore[reportArgumentType]


def test_explicit_settings_need_no_stack(tmp_path: Path) -> None:
    assert external(tmp_path).endpoints() == Endpoints(
        kafka="k1:9092,k2:9092",
        s3_endpoint="store:9000",
        s3_access_key="reader",
        s3_secret_key="s3-secret",
        s3_bucket="planloop",
        s3_secure=False,
        warehouse_url=WAREHOUSE,
    )


@pytest.mark.parametrize(
    ("endpoint", "address", "secure"),
    [
        ("store:9000", "store:9000", False),
        ("http://store:9000", "store:9000", False),
        ("https://store", "store", True),
    ],
)
def test_s3_addresses(tmp_path: Path, endpoint: str, address: str, secure: bool) -> None:
    endpoints = external(tmp_path, s3_endpoint=endpoint).endpoints()
    assert (endpoints.s3_endpoint, endpoints.s3_secure) == (address, secure)


def test_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANLOOP_STATE", str(tmp_path))
    monkeypatch.setenv("PLANLOOP_KAFKA_BOOTSTRAP", "k:1")
    monkeypatch.setenv("PLANLOOP_TENANT", "lab")
    settings = Settings.load(tenant="given")
    assert (settings.state, settings.kafka_bootstrap, settings.tenant) == (tmp_path, "k:1", "given")


def test_what_cannot_be_used_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="PLANLOOP_TENANT") as raised:
        Settings.load(tenant={"secret": "value"})
    assert "value" not in str(raised.value)


def test_nothing_known_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureAwayError, match=r"log, objects, warehouse.*planloop up"):
        settings_of(tmp_path).endpoints()
    with pytest.raises(InfrastructureAwayError, match="no address for warehouse in"):
        external(tmp_path, warehouse_url=None).endpoints()


def test_a_store_without_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="PLANLOOP_S3_SECRET_KEY"):
        external(tmp_path, s3_secret_key=None).endpoints()
    with pytest.raises(InputError, match="no host:port"):
        external(tmp_path, s3_endpoint="ftp://store").endpoints()


def test_secrets_stay_out_of_reprs(tmp_path: Path) -> None:
    settings = external(tmp_path)
    layout = plan(settings_of(tmp_path), None)
    assert layout.objects is not None
    assert layout.warehouse is not None
    for secret in ("s3-secret", "wh-secret", layout.objects.secret_key, layout.warehouse.password):
        for shown in (settings, settings.endpoints(), settings.external_s3(), layout):
            assert secret not in repr(shown)


def test_a_plan_is_kept(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    layout = plan(settings, None)
    layout.save(tmp_path)
    assert stat.S_IMODE((tmp_path / "stack.json").stat().st_mode) == 0o600
    assert Layout.load(tmp_path) == layout
    assert plan(settings, layout) == layout
    assert Layout.load(tmp_path / "elsewhere") is None


def test_ports_and_secrets_are_a_plans_own(tmp_path: Path) -> None:
    layouts = [plan(settings_of(tmp_path), None) for _ in range(20)]
    secrets = set()
    for layout in layouts:
        assert layout.objects is not None
        assert layout.log is not None
        assert layout.warehouse is not None
        ports = [
            layout.objects.port,
            *layout.objects.inner.values(),
            layout.log.port,
            layout.warehouse.port,
        ]
        assert len(set(ports)) == len(ports)
        assert all(20_000 <= port < 22_768 for port in ports)
        secrets |= {layout.objects.access_key, layout.objects.secret_key, layout.warehouse.password}
    assert len(secrets) == 60


def test_only_what_is_not_set_by_hand_is_planned(tmp_path: Path) -> None:
    assert plan(external(tmp_path), None) == Layout(None, None, None)
    layout = plan(external(tmp_path, kafka_bootstrap=None), None)
    assert (layout.objects, layout.warehouse) == (None, None)
    assert layout.log is not None
    assert layout.log.store == external(tmp_path).external_s3()
    embedded = plan(settings_of(tmp_path), None)
    assert embedded.log is not None
    assert embedded.objects is not None
    assert embedded.log.store == embedded.objects.store


def test_a_log_is_not_left_behind(tmp_path: Path) -> None:
    known = plan(settings_of(tmp_path), None)
    with pytest.raises(InputError, match=r"embedded broker's.*PLANLOOP_KAFKA_HOME"):
        plan(settings_of(tmp_path, kafka_home=tmp_path), known)
    with pytest.raises(InputError, match=r"is in S3Address.*settings say"):
        plan(external(tmp_path, kafka_bootstrap=None), known)


def test_a_folder_without_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no libs/kafka_\*\.jar|Java 17"):
        plan(settings_of(tmp_path, kafka_home=tmp_path), None)


def test_a_private_file_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("before")
    path.chmod(0o644)
    write_private(path, b"after")
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
