"""Real MySQL servers: what they are, following them, the lab."""
