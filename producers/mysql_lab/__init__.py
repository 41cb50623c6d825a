"""A fleet of real MySQL servers to try things on: its layout, accounts, load and faults.

The servers' processes are another package's; here they are reached through clients only.
"""
