"""What the storage engines are to backups; names are those of ``statement`` records, in lower case.

NDB has transactions, and commits by itself, for the other members of its cluster.
"""

from __future__ import annotations

from typing import Final

TRANSACTIONAL: Final = frozenset({"innodb", "rocksdb"})
"""A statement changes nothing that others see before the server commits it."""
WITHOUT_CONTENT: Final = frozenset({"blackhole", "federated"})
"""A table has no content on this server, so that no backup has to agree with it."""
PASSES_TABLE_LOCK: Final = TRANSACTIONAL | WITHOUT_CONTENT | {"ndb", "ndbcluster"}
"""LOCK TABLES FOR BACKUP does not stop changes of rows, only DDL."""
