"""A simulated server: binary log, commit, replication channels, administration, clients."""
