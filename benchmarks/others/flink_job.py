"""The checks in PyFlink: a keyed process function, in a Flink cluster within one JVM.

State is Flink's, on the heap: the messages of a block that is not whole yet, and the audit, put
there after each whole block, as it is read back only after a crash. Checkpoints are aligned and
go to files. PyFlink's Kafka source gives no keys, so the instance is taken out of the text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import (
    CheckpointingMode,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

from benchmarks.others.checks import CHECKPOINT_S
from benchmarks.others.kinds import KINDS, AnyChecks


class Instances(KeyedProcessFunction):
    """The checks of all instances that this worker has."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the state."""
        self._held: dict[str, AnyChecks] = {}
        self._audit = runtime_context.get_state(
            ValueStateDescriptor("audit", Types.PRIMITIVE_ARRAY(Types.BYTE()))
        )
        self._waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.STRING())
        )

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        """Put the next message of an instance into its state, and check it."""
        name = ctx.get_current_key()
        checks = self._held.get(name)
        if checks is None:
            saved, waiting = self._audit.value(), self._waiting.get()
            checks = self._held[name] = KINDS[self._kind](name, saved, waiting)
        had_waiting = checks.waiting > 0
        result = checks.take(value)
        if checks.waiting:
            self._waiting.add(value)
        else:
            self._audit.update(checks.saved())
            if had_waiting:
                self._waiting.clear()
        if result is not None:
            yield result.decode()


def instance_of(line: str) -> str:
    """Whose record it is."""
    return line.partition('"instance":"')[2].partition('"')[0]


def main() -> None:
    """Run until it is stopped."""
    servers, topic, results, directory, kind, *jars = sys.argv[1:]
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("pipeline.jars", ";".join(Path(jar).as_uri() for jar in jars))
    configuration.set_string("execution.checkpointing.dir", (Path(directory) / "state").as_uri())
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.enable_checkpointing(int(CHECKPOINT_S * 1000), CheckpointingMode.EXACTLY_ONCE)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_group_id(results)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(results)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )
    messages = env.from_source(source, WatermarkStrategy.no_watermarks(), "history")
    keyed = messages.key_by(instance_of, Types.STRING())
    keyed.process(Instances(kind), Types.STRING()).sink_to(sink)
    env.execute("checks")


if __name__ == "__main__":
    main()
