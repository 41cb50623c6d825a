"""The rules, one module a family: pure functions of one row that call `coordinates`.

They repeat no reasoning of the audit: each looks at the two halves of the cut anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from tallystick.expectations.judgement import RowRule
from tallystick.expectations.judges import binlog, collection, gtid, redo, relay

RULES: Mapping[str, RowRule] = {
    rule.name: rule
    for rule in (*gtid.RULES, *binlog.RULES, *relay.RULES, *redo.RULES, *collection.RULES)
}
"""Every rule by its name."""
