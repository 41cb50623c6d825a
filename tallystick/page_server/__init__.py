"""The report as a page that follows a run: its tables are read again when they have changed."""
