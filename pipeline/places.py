"""Places: where a job writes, on this machine or on any file system that Spark knows.

A place is a `Path`, or a `RemotePlace` with those methods of a `Path` that jobs need. Tables are
written by Spark's own writers. Pages and other small files go through Hadoop's file systems in
Spark's Java, so a place needs no second set of credentials.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from pyspark.sql import SparkSession

from covey.pipeline.errors import PipelineError

SCHEME_MARK: Final = ":/"
PATTERN_SIGN: Final = re.compile(r"[\[\]{}*?\\]")


class RemotePlace:
    """A directory or a file on a file system of Spark's."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def __truediv__(self, name: str) -> RemotePlace:
        return RemotePlace(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """Return the last part."""
        return self.url.rpartition("/")[2]

    def write_text(self, text: str) -> None:
        """Write a file, and replace one that is there."""
        system, path = self._system()
        stream = system.create(path, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def read_text(self) -> str:
        """Read a file."""
        jvm = _jvm()
        system, path = self._system()
        stream = system.open(path)
        try:
            content: bytes = jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
            return content.decode()
        finally:
            stream.close()

    def remove(self) -> None:
        """Delete a directory with all that is in it, if it is there."""
        system, path = self._system()
        system.delete(path, True)

    def exists(self) -> bool:
        """Return True if there is a file or directory."""
        system, path = self._system()
        return bool(system.exists(path))

    def children(self) -> list[RemotePlace]:
        """Return what is in a directory."""
        system, path = self._system()
        return [self / one.getPath().getName() for one in system.listStatus(path)]

    def move(self, to: RemotePlace) -> None:
        """Give a file another name on the same file system."""
        system, path = self._system()
        if not system.rename(path, to._system()[1]):
            raise PipelineError(f"{self}: it cannot be moved to {to}")

    def _system(self) -> tuple[Any, Any]:
        jvm = _jvm()
        path = jvm.org.apache.hadoop.fs.Path(self.url)
        spark = SparkSession.getActiveSession()
        assert spark is not None
        return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), path


Place = Path | RemotePlace


def place_of(text: str) -> Place:
    """Return the place that a text means."""
    if text.startswith("file:"):
        return Path("/" + text.removeprefix("file:").lstrip("/"))
    return RemotePlace(text) if SCHEME_MARK in text else Path(text)


def url_of(place: Place) -> str:
    """Return a place's URL for Spark; it does not depend on Spark's default file system."""
    return str(place) if isinstance(place, RemotePlace) else f"file://{place.resolve()}"


def readable(url: str) -> str:
    """Return a URL as Spark's readers want it: they take brackets and stars for patterns."""
    return PATTERN_SIGN.sub(r"\\\g<0>", url)


def make_out(out: Place, option: str = "--out") -> None:
    """Make the directory for a job's output before the job begins."""
    if isinstance(out, RemotePlace):
        return  # Spark makes it; it cannot be checked before Spark runs
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(f"{option} {out}: cannot be made: {error.strerror}") from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise PipelineError(f"{option} {out}: it cannot be written to")


def remove(place: Place) -> None:
    """Delete a directory with all that is in it, if it is there."""
    if isinstance(place, RemotePlace):
        place.remove()
    else:
        rmtree(place, ignore_errors=True)


def put_text(place: Place, text: str) -> None:
    """Write a small file; on this machine readers never see a part of it."""
    if isinstance(place, RemotePlace):
        place.write_text(text)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(place)


def _jvm() -> Any:
    spark = SparkSession.getActiveSession()
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise PipelineError("by Spark Connect a directory of this machine is meant")
    return jvm
