"""Log Position Lock (WL#9452): one query collects the positions of all logs under their locks."""
