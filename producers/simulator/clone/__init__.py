"""Clone replication coordinates (WL#9211): a copy knows where its donor's history was."""
