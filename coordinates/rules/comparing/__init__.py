"""Comparing instances with each other: what is compared, what is remembered for it, the rules."""
