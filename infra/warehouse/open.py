"""From a URL to the adapter that speaks its protocol."""

from urllib.parse import urlsplit

from infra.warehouse.protocol import Warehouse
from schemas.errors import InputError


def open_warehouse(url: str) -> Warehouse:
    """http:// and https:// for the HTTP interface, clickhouse:// for the native protocol; each as
    scheme://user:password@host:port/database. Nothing is sent yet."""
    try:
        parts = urlsplit(url)
        scheme, _ = parts.scheme, parts.port
    except ValueError:  # its words would tell a part of the address, and that of the password
        raise InputError("the warehouse's address is no URL") from None
    # Each adapter loads libraries that the other's users need not wait for.
    if scheme in ("http", "https"):
        from infra.warehouse.http import HttpWarehouse

        return HttpWarehouse(url)
    if scheme == "clickhouse":
        from infra.warehouse.native import NativeWarehouse

        return NativeWarehouse(url)
    raise InputError(f"a warehouse is not reached by {scheme or 'no scheme'}://")
