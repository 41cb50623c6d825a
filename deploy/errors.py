"""Errors of deploy.

AuditError                 coordinates.values.errors
└── DeployError            something on this machine prevents it
    ├── JarError           a jar could not be fetched, or is not the one that was pinned
    ├── BrokerError        the local broker cannot start, answer or stop
    └── MysqldError        a MySQL server of the lab cannot be made, start, answer or stop
"""

from __future__ import annotations

from tallystick.coordinates.values.errors import AuditError


class DeployError(AuditError):
    """Something on this machine prevents it; the message has the fix."""


class JarError(DeployError):
    """A jar could not be fetched, or its bytes are not those that were pinned."""


class BrokerError(DeployError):
    """The local broker cannot start, does not answer or does not stop."""


class MysqldError(DeployError):
    """A MySQL server of the lab cannot be made, cannot start, does not answer or does not stop."""
