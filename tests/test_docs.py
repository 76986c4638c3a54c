"""Commands that the documents show exist, with the options that they show."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from planloop.cli import app
from tests.conftest import REPOSITORY

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def shown(document: Path) -> list[list[str]]:
    """Arguments of every `planloop` command in a document's shell blocks."""
    commands: list[list[str]] = []
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            names = [word.rsplit("/", 1)[-1] for word in words]
            if "planloop" in names:
                commands.append(words[names.index("planloop") + 1 :])
    return commands


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_documents_exist(document: Path):
    for words in shown(document):
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            name = words.pop(0)
            assert name in command.commands, f"{document.name}: no command {name}"
            command = command.commands[name]
        command.make_context(command.name, list(words))


def test_links_in_documents_lead_somewhere():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_compose_file_runs_commands_that_exist():
    compose = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    application: Any = typer.main.get_command(app)
    for name in ("process", "gateway", "train"):
        service = compose["services"][name]
        assert service["command"].split()[0] in application.commands
        assert service["depends_on"].keys() == {"kafka", "minio", "clickhouse"}
