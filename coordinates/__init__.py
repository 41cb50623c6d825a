"""Coordinates of MySQL's logs and when they agree: values and rules, no I/O, no clock.

It imports nothing, so the command starts without numpy; ``tallystick.api`` has the public names.
"""
