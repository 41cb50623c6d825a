"""The kernel of the simulator: virtual time, the bus, servers made of components; it knows none."""
