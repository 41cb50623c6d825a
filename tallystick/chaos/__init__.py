"""Faults of the machinery: real processes are killed and stopped, and nothing may change by it."""
