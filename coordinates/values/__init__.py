"""Values: GTID sets, coordinates of logs, log sequence numbers, the errors of reading them."""
