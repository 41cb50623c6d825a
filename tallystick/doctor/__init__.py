"""Tries what a deployment needs, and says of each thing whether it is there and what fixes it."""
