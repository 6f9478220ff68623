"""One Spark for all tests: starting it costs more than all they do with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from covey.pipeline.spark import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", "local[2]")
    yield session
    session.stop()
