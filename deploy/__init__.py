"""What tallystick needs on one machine: jars, a broker, checks of the machine.

Speaks to Java and to the operating system; knows nothing of Kafka's clients, of Spark's session
or of MySQL.
"""
