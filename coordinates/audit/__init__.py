"""The audit: the step of an instance, the step of a fleet, what they remember, what they give."""
