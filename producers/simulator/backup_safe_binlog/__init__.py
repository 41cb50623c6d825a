"""Backup-safe binary log information (Percona): locks, and coordinates in the InnoDB header."""
