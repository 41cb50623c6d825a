"""Online backup and point-in-time recovery (WL#3576): commits stand still for a validity point."""
