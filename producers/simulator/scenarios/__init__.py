"""Scenarios of the five documents: what each one shows, on a fleet of its own."""
