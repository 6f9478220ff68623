"""CoveyDataSource: queues of a broker as tables and streams of Spark, both ways.

    spark.dataSource.register(CoveyDataSource)
    spark.readStream.format("covey").option("subscribe", "orders").load()
    frame.write.format("covey").option("queue", "orders").mode("append").save()

The data source needs nothing but the STOMP address in `brokers`. `options` has the options,
`columns` the columns.
"""

from __future__ import annotations

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


class CoveyDataSource(DataSource):
    """The format `covey`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` calls it."""
        return "covey"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        has_headers = str(self.options.get("includeHeaders", "true")).strip().lower() != "false"
        return schema(has_headers=has_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads in one go."""
        self._refuse_other(schema)
        options = read_options(self.options, is_stream=False)
        return FilteringReader(options) if options.pushes_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads batch by batch."""
        self._refuse_other(schema)
        return StreamReader(read_options(self.options, is_stream=True))

    def _refuse_other(self, asked: StructType) -> None:
        """Raise PipelineError if a user asks for other columns than there are."""
        own = self.schema()
        if [(one.name, one.dataType) for one in asked] != [(one.name, one.dataType) for one in own]:
            raise PipelineError(
                f"schema: the columns are {', '.join(own.fieldNames())}, of their own types; leave"
                " schema() out and select from them"
            )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what sends rows in one go."""
        return BatchSink(sink_options(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what sends rows batch by batch."""
        return StreamSink(sink_options(self.options, schema, overwrite=overwrite))
