"""From a URL to the adapter that speaks its protocol."""

from urllib.parse import urlsplit

from infra.warehouse.protocol import Warehouse
from schemas.errors import InputError


def open_warehouse(url: str) -> Warehouse:
    """http:// and https:// for the HTTP interface, clickhouse:// for the native protocol; each as
    scheme://user:password@host:port/database. Nothing is sent yet."""
    scheme = urlsplit(url).scheme
    # Each adapter loads libraries that the other's users need not wait for.
    if scheme in ("http", "https"):
        from infra.warehouse.http import HttpWarehouse

        return HttpWarehouse(url)
    if scheme == "clickhouse":
        from infra.warehouse.native import NativeWarehouse

        return NativeWarehouse(url)
    raise InputError(f"a warehouse is not reached by {scheme or 'no scheme'}://")
