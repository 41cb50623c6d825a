"""The commands, one module a group. Each imports what it needs when it runs."""
