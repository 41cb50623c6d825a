"""Metrics for Great Expectations, on the pandas and on the Spark engine."""
