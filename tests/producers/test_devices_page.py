"""The page for device teams says what is true: its commands run, against the gateway that it
tells one to start."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.settings import Settings
from tests.producers.reading import ids_on

PAGE = (Path(__file__).parents[2] / "docs" / "devices.md").read_text()
TOKEN = "the-token-of-the-page"


@pytest.fixture
def environment(fresh_stack: Settings) -> Iterator[dict[str, str]]:
    """What the page takes for granted: a log, and the gateway in front of it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tokens = {"acme": [hashlib.sha256(TOKEN.encode()).hexdigest()]}
    environment = os.environ | {
        "BROKER": fresh_stack.endpoints().kafka,
        "GATEWAY": f"http://127.0.0.1:{port}",
        "TOKEN": TOKEN,
        "PLANLOOP_STATE": str(fresh_stack.state),
        "PLANLOOP_GATEWAY_PORT": str(port),
        "PLANLOOP_GATEWAY_TOKENS": json.dumps(tokens),
    }
    gateway = subprocess.Popen([sys.executable, "-m", "producers.gateway"], env=environment)
    try:
        _await(f"{environment['GATEWAY']}/healthz")
        yield environment
    finally:
        gateway.terminate()
        assert gateway.wait(20) in (0, -15)


def _await(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            assert httpx.get(url).status_code == 200
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the gateway did not start"
            time.sleep(0.05)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_snippets_and_commands_run(environment: dict[str, str], tmp_path: Path) -> None:
    snippets, commands = blocks("python"), blocks("bash")
    assert (len(snippets), len(commands)) == (4, 1)
    for command in [*([sys.executable, "-c", s] for s in snippets), ["bash", "-c", commands[0]]]:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    broker = environment["BROKER"]
    sent = ids_on(broker, "demo-group")
    assert {"demo-group#0", "demo-group/0#4", "demo-group/1#4"} <= set(sent)
    assert ids_on(broker, "http-group") == [f"http-group/0#{seq}" for seq in range(3)]
    assert ids_on(broker, "curl-group") == ["curl-group/0#0"]
