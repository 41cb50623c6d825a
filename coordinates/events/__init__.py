"""Records of the journal: log events and server records, their schema, bytes and text."""
