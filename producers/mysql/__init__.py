"""Real MySQL servers: their settings, their statements, their logs.

Nothing here knows the audit; what is read becomes records of the journal (docs/journal.md).
"""
