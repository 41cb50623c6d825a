"""Answers to an operator's questions, from evidence that somebody else loads; no I/O, no clock."""
