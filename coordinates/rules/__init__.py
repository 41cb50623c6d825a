"""The rules: predicates that healthy servers keep, one file a family, and what they answer."""
