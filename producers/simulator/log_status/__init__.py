"""performance_schema.log_status: the locks, the row, and the answer to a collection (WL#9452)."""
