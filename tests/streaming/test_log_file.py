"""Spark's log: bounded, while processes append to it."""

from __future__ import annotations

import logging

from tallystick.streaming.session import LOGS_KEPT, LogFile, log_tail, put_aside


def test_a_full_disk_prints_no_traceback(capsys):
    """What stops the job then is one sentence."""
    log = LogFile("/dev/full")
    log.emit(logging.makeLogRecord({"msg": "x"}))
    assert ("", "") == capsys.readouterr()


def test_the_end_of_a_log_has_nothing_of_earlier_runs(tmp_path):
    """A message that quotes it is about this run."""
    log = tmp_path / "spark.log"
    log.write_bytes("earlier \u00e9\n".encode())
    begun_at = log.stat().st_size
    with log.open("a") as appended:
        appended.write("now\n\tat a line of a stack\n")
    assert "now" == log_tail(log, begun_at)


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
