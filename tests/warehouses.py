"""A database of its own for each test, migrated, on a warehouse that is shared."""

import secrets
from urllib.parse import urlsplit

from infra.warehouse import Warehouse, migrate, open_warehouse


def fresh_database(url: str) -> Warehouse:
    """A new, migrated database beside the one that `url` names."""
    name = f"test_{secrets.token_hex(6)}"
    here = open_warehouse(url)
    here.execute(f"CREATE DATABASE {name}")
    here.close()
    warehouse = open_warehouse(urlsplit(url)._replace(path=f"/{name}").geturl())
    migrate(warehouse)
    return warehouse
