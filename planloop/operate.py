"""Commands of whoever keeps the stack running: up, down, status, gateway."""

from dataclasses import asdict
from typing import Annotated

import typer

from infra import stack
from infra.log import Producer
from planloop.options import (
    Json,
    State,
    as_dicts,
    exit_statuses,
    print_json,
    print_table,
    say,
    settings_for,
)
from planloop.workers import Site, warehouse_of
from producers.gateway import GatewaySettings, serve
from schemas.errors import InfrastructureAwayError

_LAG = (
    "SELECT consumer, topic, sum(position) AS position, sum(end) AS end, sum(lag) AS lag,"
    " max(seconds_behind) AS seconds_behind FROM lag GROUP BY consumer, topic ORDER BY topic"
)
_LAG_COLUMNS = ("consumer", "topic", "position", "end", "lag", "seconds_behind")


def up(state: State = None, as_json: Json = False) -> None:
    """Start the embedded stack and wait until every part answers."""
    with exit_statuses(as_json):
        settings = settings_for(state)
        stack.up(settings, lambda part, what: say(f"{part}: {what}"))
        if as_json:
            print_json([asdict(part) for part in stack.status(settings)])


def down(state: State = None, as_json: Json = False) -> None:
    """Stop the embedded stack. What it keeps stays in the state directory."""
    with exit_statuses(as_json):
        settings = settings_for(state)
        stack.down(settings, lambda part, what: say(f"{part}: {what}"))
        if as_json:
            print_json([asdict(part) for part in stack.status(settings)])


def status(state: State = None, as_json: Json = False) -> None:
    """How each part of the stack is, and how far the warehouse is behind the log."""
    with exit_statuses(as_json):
        settings = settings_for(state)
        parts = stack.status(settings)
        lag = []
        if all(part.state == "running" for part in parts):
            try:
                with warehouse_of(Site(settings, settings.endpoints())) as warehouse:
                    lag = warehouse.rows(_LAG)
            except InfrastructureAwayError as error:
                say(str(error))
        if as_json:
            print_json(
                {"parts": [asdict(part) for part in parts], "lag": as_dicts(_LAG_COLUMNS, lag)}
            )
        else:
            columns = ("part", "state", "pid", "port", "detail")
            rows = [[p.name, p.state, str(p.pid or ""), str(p.port or ""), p.detail] for p in parts]
            print_table(f"stack in {settings.state}", columns, rows)
            if lag:
                print_table("lag, as the warehouse saw it last", _LAG_COLUMNS, lag)
        if not parts or any(part.state != "running" for part in parts):
            raise typer.Exit(InfrastructureAwayError.exit_status)


def gateway(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    state: State = None,
) -> None:
    """Take events over HTTP, with a token for each tenant (PLANLOOP_GATEWAY_TOKENS)."""
    with exit_statuses(False):
        chosen = {"host": host, "port": port}
        given = {name: value for name, value in chosen.items() if value is not None}
        settings = GatewaySettings(**given)  # pyright: ignore[reportArgumentType]
        producer = Producer(settings_for(state).endpoints().kafka)
        try:
            serve(settings, producer)
        finally:
            producer.close()
