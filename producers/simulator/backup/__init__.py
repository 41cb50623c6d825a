"""Backups: their locks, the critical zone of an online backup, images, restore and recovery."""
