"""Judging one log_status row against the journal at its place; one module a subject."""
