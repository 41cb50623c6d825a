"""The two Kafka clients, with one protocol: librdkafka's where it is installed, kafka-python."""
