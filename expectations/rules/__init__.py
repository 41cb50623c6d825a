"""Expectations that any Great Expectations project can use, on pandas and on Spark.

Importing this package registers all of them. Their columns default to those of the cut table.
"""

from tallystick.expectations.rules.binlog import (
    ExpectBinaryLogCoordinatesToBeComplete,
    ExpectBinaryLogPositionNotToFall,
    ExpectBinaryLogPositionToBeOnGroupBoundary,
)
from tallystick.expectations.rules.collection import (
    ExpectAuditToAgreeWithTheHalves,
    ExpectAuditToFindNothingBroken,
    ExpectCutsToBeUnique,
    ExpectEveryInstanceToAnswer,
    ExpectNoEventFindings,
    ExpectVerdictToBeKnown,
)
from tallystick.expectations.rules.gtid import (
    ExpectCommitLagToBeBounded,
    ExpectExecutedGtidsNotToShrink,
    ExpectExecutedGtidsToBeLogged,
    ExpectGtidSetToBeCanonical,
    ExpectGtidSetToBeWellFormed,
    ExpectOwnedGtidsNotToBeExecuted,
    ExpectOwnedGtidsToBeWellFormed,
    ExpectPurgedGtidsNotToShrink,
    ExpectPurgedGtidsToBeExecuted,
    ExpectRetrievedGtidsToBeReceived,
)
from tallystick.expectations.rules.redo import (
    ExpectLsnNotToFall,
    ExpectLsnsToBeInBlockData,
    ExpectLsnsToBeInOrder,
)
from tallystick.expectations.rules.relay import (
    ExpectExecutedSourcePositionToBeRead,
    ExpectRelayLogPositionToBeOnWrittenBoundary,
)

__all__ = [
    "ExpectAuditToAgreeWithTheHalves",
    "ExpectAuditToFindNothingBroken",
    "ExpectBinaryLogCoordinatesToBeComplete",
    "ExpectBinaryLogPositionNotToFall",
    "ExpectBinaryLogPositionToBeOnGroupBoundary",
    "ExpectCommitLagToBeBounded",
    "ExpectCutsToBeUnique",
    "ExpectEveryInstanceToAnswer",
    "ExpectExecutedGtidsNotToShrink",
    "ExpectExecutedGtidsToBeLogged",
    "ExpectExecutedSourcePositionToBeRead",
    "ExpectGtidSetToBeCanonical",
    "ExpectGtidSetToBeWellFormed",
    "ExpectLsnNotToFall",
    "ExpectLsnsToBeInBlockData",
    "ExpectLsnsToBeInOrder",
    "ExpectNoEventFindings",
    "ExpectOwnedGtidsNotToBeExecuted",
    "ExpectOwnedGtidsToBeWellFormed",
    "ExpectPurgedGtidsNotToShrink",
    "ExpectPurgedGtidsToBeExecuted",
    "ExpectRelayLogPositionToBeOnWrittenBoundary",
    "ExpectRetrievedGtidsToBeReceived",
    "ExpectVerdictToBeKnown",
]
