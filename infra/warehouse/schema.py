"""The types of tables' columns, asked once and forgotten when an insert is refused."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from infra.warehouse.protocol import WarehouseError


class TableTypes:
    """`ask` runs a query and gives its rows. Threads may share one."""

    def __init__(self, ask: Callable[[str], list[tuple[Any, ...]]]) -> None:
        self._ask = ask
        self._known: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()

    def of(self, table: str, columns: Iterable[str]) -> Mapping[str, str]:
        """Column name to ClickHouse type; asked again when one of `columns` is not known."""
        with self._lock:
            known = self._known.get(table)
        if known is None or not known.keys() >= set(columns):
            rows = self._ask(f"DESCRIBE TABLE {table}")
            known = {name: type_name for name, type_name, *_ in rows}
            with self._lock:
                self._known[table] = known
        return known

    @contextmanager
    def forgotten_on_error(self, table: str) -> Iterator[None]:
        """The table may have changed under the insert that was refused."""
        try:
            yield
        except WarehouseError:
            with self._lock:
                self._known.pop(table, None)
            raise
