"""Interpreters of the peers: neither can share planloop's environment, so each gets one."""

import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parent.parent.parent.parent

PACKAGES = {
    "faust_agent": ("faust-streaming==0.15.3", "cramjam", "protobuf>=5.29,<8", "msgspec>=0.19"),
    "quix_frame": ("quixstreams==3.28.1", "protobuf>=5.29,<8", "msgspec>=0.19"),
}
"""What a peer's module needs; quixstreams brings the confluent-kafka that it is made for."""


def interpreter(peer: str) -> Path:
    """The Python of a peer's module in .venv-faust or .venv-quix, made on first use."""
    folder = _REPOSITORY / f".venv-{peer.split('_')[0]}"
    ready = folder / ".ready"
    python = folder / "bin" / "python"
    if not ready.exists():
        install = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[peer]]
        for command in ([sys.executable, "-m", "venv", str(folder)], install):
            subprocess.run(command, check=True, stdout=sys.stderr)
        ready.touch()
    return python
