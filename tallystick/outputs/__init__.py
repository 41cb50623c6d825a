"""How a result is written: one module a form."""
