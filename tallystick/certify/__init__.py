"""Are the coordinates in a backup true? Formats of backups, what a journal knows, the judgement.

Nothing here opens a file: `tallystick.runs.certify` reads and writes.
"""
