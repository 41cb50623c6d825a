"""Alerts of incidents: decided from their changes, queued on disk, delivered to sinks."""
