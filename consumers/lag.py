"""Lag: how far a consumer is behind the log, in offsets and in seconds."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from infra.warehouse.protocol import Warehouse


class Lag(NamedTuple):
    """One partition: next offset to read, end of the log, and the broker time of the last record
    that was taken (UTC microseconds, 0 for none)."""

    position: int
    end: int
    last_time: int

    def seconds_behind(self, now: int) -> float:
        """0 at the end; else the age of the last record taken, which the next one may share."""
        if self.position >= self.end or not self.last_time:
            return 0.0
        return max(now - self.last_time, 0) / 1_000_000


def write_lag(warehouse: Warehouse, consumer: str, lags: Mapping[tuple[str, int], Lag]) -> None:
    """Replace what view `lag` says about a consumer's partitions, keyed by (topic, partition)."""
    now = time.time_ns() // 1000
    warehouse.insert(
        "lag_facts",
        {
            "consumer": [consumer] * len(lags),
            "topic": [topic for topic, _ in lags],
            "partition": [partition for _, partition in lags],
            "position": [lag.position for lag in lags.values()],
            "end": [lag.end for lag in lags.values()],
            "seconds_behind": [lag.seconds_behind(now) for lag in lags.values()],
            "observed_at": [now] * len(lags),
        },
        f"lag:{consumer}:{now}",
    )
