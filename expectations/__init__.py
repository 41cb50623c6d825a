"""Great Expectations over the cut table, and the report. Importing this package imports neither."""
