"""CoveyDataSource: queues of a broker as tables and streams of Spark, both ways.

    covey.pipeline.register(spark)
    spark.readStream.format("covey").option("subscribe", "orders").load()
    frame.write.format("covey").option("queue", "orders").mode("append").save()

The data source needs nothing but the STOMP address in `brokers`. `options` has the options,
`columns` the columns. `register` tells the data source how many tasks the cluster runs at once. The
data source cannot ask that itself: `spark.dataSource.register(CoveyDataSource)` alone makes it
assume the number of the driver's cores.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from covey.pipeline.datasource.columns import schema
from covey.pipeline.datasource.options import read_options
from covey.pipeline.datasource.reader import BatchReader, FilteringReader, StreamReader
from covey.pipeline.datasource.sink import BatchSink, StreamSink, sink_options
from covey.pipeline.errors import PipelineError
from covey.pipeline.spark import parallelism


class CoveyDataSource(DataSource):
    """The format `covey`."""

    cores = 0  # how many tasks run at once; 0: as many as this machine has cores

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "covey"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        return schema(
            has_headers=self._is_wanted("includeHeaders"), has_value=self._is_wanted("includeValue")
        )

    def _is_wanted(self, name: str) -> bool:
        return str(self.options.get(name, "true")).strip().lower() != "false"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a table."""
        self._refuse_other(schema)
        options = read_options(self.options, is_stream=False)
        kind = FilteringReader if options.pushes_filters else BatchReader
        return kind(options, self.cores)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        self._refuse_other(schema)
        return StreamReader(read_options(self.options, is_stream=True), self.cores)

    def _refuse_other(self, asked: StructType) -> None:
        """Raise PipelineError if the user asks for a schema other than that of the data source."""
        own = self.schema()
        if [(one.name, one.dataType) for one in asked] != [(one.name, one.dataType) for one in own]:
            raise PipelineError(
                f"schema: the columns are {', '.join(own.fieldNames())}, of their own types; leave"
                " schema() out and select from them"
            )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the sink of a table."""
        return BatchSink(sink_options(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the sink of a stream."""
        options = sink_options(self.options, schema, overwrite=overwrite, is_stream=True)
        return StreamSink(options)


def register(spark: SparkSession) -> None:
    """Make the format `covey` known to a session."""

    # Spark pickles a local class by value, so its `cores` reach the workers with it.
    class Here(CoveyDataSource):
        cores = parallelism(spark)

    spark.dataSource.register(Here)
