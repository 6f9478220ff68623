"""One line for an error, whatever Spark wraps around it."""

from __future__ import annotations

from covey.pipeline.errors import one_line


def test_our_own_words_are_found_between_spark_s_traces() -> None:
    error = Exception(
        "[STREAM_FAILED] Query terminated: Traceback (most recent call last):\n"
        '  File "reader.py", line 1, in partitions\n'
        "covey.pipeline.errors.PipelineError: subscribe=q: there is no queue q\n"
        " SQLSTATE: 38000\n\tat org.apache.spark.X"
    )
    assert one_line(error) == "subscribe=q: there is no queue q"


def test_another_error_is_its_first_line() -> None:
    assert one_line(Exception("\n[PATH_NOT_FOUND] x\n\tat org.apache")) == "[PATH_NOT_FOUND] x"


def test_java_s_cause_is_better_than_the_method_that_failed() -> None:
    text = (
        "An error occurred while calling o450.parquet.\n: org.apache.spark.SparkException: Job"
        " aborted\n\tat x\nCaused by: org.apache.spark.SparkException: Task failed\n\tat y\n"
        "Caused by: java.io.IOException: No space left on device\n\tat z\n"
    )
    assert one_line(Exception(text)) == "IOException: No space left on device"
    bare = "An error occurred while calling o1.x.\n: java.lang.IllegalStateException: closed\n\tat"
    assert one_line(Exception(bare)) == "java.lang.IllegalStateException: closed"


def test_what_python_said_far_away_is_better_than_that_it_said_something() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "plan.py", line 1, in play\n    load = loads[3]\n           ~~~~~^^^\n'
        "KeyError: 3\n\nDriver stacktrace:\njava.lang.Error: no"
    )
    assert one_line(Exception(text)) == "KeyError: 3"


def test_a_worker_without_covey_is_told_what_to_do() -> None:
    trace = (
        "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'covey'"
    )
    said = one_line(Exception(f"Job aborted.\n{trace}\n\tat java"))
    assert said.startswith("the workers' Python has no covey: install Covey with its extra")
