"""A deterministic simulation of a MySQL fleet that writes journals: seed in, history out.

The simulator knows how servers behave and nothing of what the auditor checks.
"""
