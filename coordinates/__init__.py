"""Coordinates of MySQL's logs and when they agree: values and rules, no I/O, no clock."""

from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import Gtid, GtidSet

__all__ = ["Gtid", "GtidSet", "GtidSetParseError"]
