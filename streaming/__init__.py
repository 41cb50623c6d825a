"""The Spark part: the auditor query, the collector query, their sinks and their runner.

Knows Spark and the domain (`coordinates`). Does not know where jars, brokers, validators or reports
come from: the caller hands in paths and callables.
"""
