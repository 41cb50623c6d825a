"""Coordinates of MySQL's logs and when they agree: values and rules, no I/O, no clock."""

from tallystick.coordinates.errors import GtidSetParseError
from tallystick.coordinates.gtid import Gtid, GtidSet

__all__ = ["Gtid", "GtidSet", "GtidSetParseError"]
