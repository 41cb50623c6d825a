"""Legal histories at full speed: what a pipeline is measured with, and what it must find clean."""
