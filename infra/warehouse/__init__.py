"""The warehouse: views over the log, in ClickHouse's words, embedded or on a server."""

from infra.warehouse.migrations import migrate
from infra.warehouse.open import open_warehouse
from infra.warehouse.protocol import Warehouse, WarehouseError

__all__ = ["Warehouse", "WarehouseError", "migrate", "open_warehouse"]
