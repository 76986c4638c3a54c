"""A database of its own for each test, migrated, on a warehouse that is shared."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from infra.warehouse import Warehouse, migrate, open_warehouse


@contextmanager
def fresh_database(url: str) -> Iterator[Warehouse]:
    """A new, migrated database beside the one that `url` names, gone again afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    here = open_warehouse(url)
    here.execute(f"CREATE DATABASE {name}")
    fresh = open_warehouse(urlsplit(url)._replace(path=f"/{name}").geturl())
    try:
        migrate(fresh)
        yield fresh
    finally:
        fresh.close()
        here.execute(f"DROP DATABASE {name}")
        here.close()
