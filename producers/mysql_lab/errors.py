"""What goes wrong with the lab, in a sentence that names the server.

AuditError                 coordinates.values.errors
└── LabError               a server of the lab cannot be reached, or does not do as it should
"""

from __future__ import annotations

from tallystick.coordinates.values.errors import AuditError


class LabError(AuditError):
    """A server of the lab cannot be reached or does not do as it should."""
