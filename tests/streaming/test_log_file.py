"""Spark's log: bounded, while processes append to it."""

from __future__ import annotations

from tallystick.streaming.session import LOGS_KEPT, put_aside


def test_a_large_log_is_put_aside_and_the_oldest_go(tmp_path):
    """What is appended by who has it open comes into the new one."""
    log = tmp_path / "spark.log"
    with log.open("ab", buffering=0) as appended:
        for number in range(LOGS_KEPT + 2):
            appended.write(b"%d" % number * 11)
            put_aside(log, bytes_max=10)
        appended.write(b"end")
    put_aside(log, bytes_max=10)
    assert b"end" == log.read_bytes()
    kept = {path.name: path.read_bytes()[:1] for path in tmp_path.iterdir() if path != log}
    assert {"spark.log.1": b"4", "spark.log.2": b"3", "spark.log.3": b"2"} == kept
