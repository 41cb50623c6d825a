"""The installed command and the way through the product: the only package that knows the others.

Nothing heavy is imported before a command needs it.
"""

__version__ = "0.1.0"
