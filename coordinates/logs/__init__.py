"""Readers of the binary log and of relay logs: they follow a log and report what does not fit."""
