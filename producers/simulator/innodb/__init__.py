"""InnoDB: the redo log, undo logs, the TRX_SYS page, and how GTIDs become persistent (WL#9211)."""
