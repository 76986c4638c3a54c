"""Apache Kafka in the embedded broker's place: one KRaft node, broker and controller in one."""

import os
import shutil
import subprocess
from pathlib import Path

from infra.layout import LOOPBACK, LogLayout, write_private
from infra.log.topics import MAX_BATCH_BYTES, answers
from infra.parts.part import Command, private_folder
from schemas.errors import InfrastructureAwayError, InputError

_FORMAT_S = 120


class Kafka:
    """The broker of an unpacked distribution (its jars in `libs/`), run by Java 17 or newer."""

    name = "log"
    stop_s = 30.0
    stands_on = None

    def __init__(self, state: Path, layout: LogLayout) -> None:
        self.port = layout.port
        self._layout = layout
        self._folder = state / "kafka"

    def command(self) -> Command:
        private_folder(self._folder)
        properties = self._folder / "server.properties"
        logging = self._folder / "log4j2.properties"
        write_private(properties, self._properties().encode())
        write_private(logging, _LOGGING.encode())
        java = [
            find_java(),
            "-Xms128m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            f"{find_jars(Path(self._layout.home))}/*",
        ]
        if not (self._folder / "log" / "meta.properties").exists():
            self._format([*java, "kafka.tools.StorageTool", "format"], properties)
        return Command([*java, "kafka.Kafka", str(properties)])

    def ready(self) -> bool:
        return answers(self._layout.address)

    def _format(self, tool: list[str], properties: Path) -> None:
        done = subprocess.run(
            [*tool, f"--cluster-id={self._layout.cluster}", "--config", str(properties)],
            capture_output=True,
            text=True,
            timeout=_FORMAT_S,
        )
        if done.returncode != 0:
            raise InfrastructureAwayError("log", f"Kafka's storage: {done.stderr or done.stdout}")

    def _properties(self) -> str:
        broker, controller = self._layout.port, self._layout.controller
        listeners = f"PLAINTEXT://{LOOPBACK}:{broker},CONTROLLER://{LOOPBACK}:{controller}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "log.dirs": self._folder / "log",
            "auto.create.topics.enable": "false",
            "message.max.bytes": MAX_BATCH_BYTES,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def find_java() -> str:
    """The Java to run: JAVA_HOME's, else the one on the path; InputError without either."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        raise InputError("Kafka needs Java 17", "install it, or unset PLANLOOP_KAFKA_HOME")
    return java


def find_jars(home: Path) -> Path:
    """The folder of a distribution's jars; InputError where there is none."""
    jars = home / "libs"
    if not any(jars.glob("kafka_*.jar")):
        raise InputError(
            f"{home} is no unpacked Kafka: no libs/kafka_*.jar in it",
            "point PLANLOOP_KAFKA_HOME at one, or unset it",
        )
    return jars


_LOGGING = """\
status=warn
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
"""
