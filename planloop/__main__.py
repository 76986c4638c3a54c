"""`python -m planloop` is the `planloop` command."""

from planloop.cli import app

app()
