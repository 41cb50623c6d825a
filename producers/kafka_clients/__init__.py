"""The two Kafka clients behind one protocol: librdkafka's where it is installed, kafka-python."""
