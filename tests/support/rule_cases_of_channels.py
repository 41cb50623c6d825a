"""Cases of the rules of what a row says of a channel."""

from __future__ import annotations

from tests.support.journals import UUID_B, UUID_C, Journal, Record, RelayLog
from tests.support.rule_cases import apply, case, channel, replica

# Tier 2: channels


@case()
def relay_position_on_written_boundary(breaks: bool) -> Journal:
    journal, _relay, _ = replica()
    row = journal.row()
    channel(row)["relay_log_position"] += 1 if breaks else 0
    journal.record("heartbeat")
    return journal


@case()
def relay_position_on_written_boundary__inside(breaks: bool) -> Journal:
    """Inside a group is legal, inside an event is not."""
    journal, _relay, _ = replica()
    channel(journal.row())["relay_log_position"] -= 30 if breaks else 31
    return journal


@case()
def relay_position_on_written_boundary__magic_number(breaks: bool) -> Journal:
    """The first event of a file begins after it."""
    journal, _relay, _ = replica()
    channel(journal.row())["relay_log_position"] = 3 if breaks else 4
    return journal


@case()
def relay_position_on_written_boundary__of_another_log(breaks: bool) -> Journal:
    """A file of a name that was not seen may be of another host; the binary log's is not."""
    journal, _relay, _ = replica()
    named = channel(journal.row())
    named["relay_log_file"] = journal.binlog.file if breaks else "host-relay.000001"
    return journal


@case()
def relay_position_matches_master_info(breaks: bool) -> Journal:
    """A group is written and, just inside, flushed."""
    journal, relay, more = replica(sync_source_info=1)
    store(journal, relay)
    relay.copy(more[0])
    if not breaks:
        store(journal, relay)
    journal.row()
    return journal


@case()
def relay_position_matches_master_info__period(breaks: bool) -> Journal:
    """As many events may be unstored as are not yet enough for a write."""
    journal, relay, more = replica()
    journal.record("variables", variables={"sync_source_info": len(more[0]) + 1 - breaks})
    store(journal, relay)
    relay.copy(more[0])
    journal.row()
    return journal


@case()
def relay_position_matches_master_info__at_the_next_row(breaks: bool) -> Journal:
    """A coordinate that has grown since the row before is judged as that one was."""
    journal, relay, more = replica(sync_source_info=1)
    for at, group in enumerate(more[:2]):
        relay.copy(group)
        if not (at and breaks):
            store(journal, relay)
        journal.row()
    return journal


@case()
def relay_position_matches_master_info__before_stored(breaks: bool) -> Journal:
    """What is written after the flushed coordinate may not be stored."""
    journal, relay, more = replica(sync_source_info=1)
    if not breaks:
        store(journal, relay)
    flushed = relay.coordinates
    relay.copy(more[0])
    if breaks:
        store(journal, relay)
    relay.flushed = flushed
    journal.row()
    return journal


def store(journal: Journal, relay: RelayLog) -> None:
    """A write to slave_master_info."""
    (row,) = master_info(relay)
    journal.record("info_write", table="slave_master_info", channel="", reason="sync", row=row)


@case()
def applied_within_flushed(breaks: bool) -> Journal:
    return _ahead_of_flushed(breaks)


@case()
def applied_within_flushed__next_file_read(breaks: bool) -> Journal:
    return _ahead_of_flushed(breaks, goes_on=True)


def _ahead_of_flushed(breaks: bool, *, goes_on: bool = False) -> Journal:
    """Of a row; the relay log may have gone on in its next file before the answer was whole."""
    journal, relay, more = replica()
    flushed = relay.coordinates
    events = relay.copy(more[0])
    if goes_on:
        relay.rotate()
        relay.copy(more[1])
    relay.flushed = flushed
    end = events[1 if breaks else 0]
    applied = {"Relay_Log_File": end["file"], "Relay_Log_Pos": end["start"] + end["length"]}
    journal.row(replica_status=journal.replica_status(**applied))
    return journal


@case()
def exec_source_pos_within_read(breaks: bool) -> Journal:
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    end = relay.source[1] + breaks  # type: ignore[index]
    journal.row(replica_status=journal.replica_status(Exec_Source_Log_Pos=end))
    return journal


@case()
def exec_source_pos_within_read__before_the_relay_log_names_a_file(breaks: bool) -> Journal:
    """Its head alone tells nothing of the source; a connection tells where it reads."""
    journal = Journal("a", UUID_B, 2, gtid_mode="OFF").begin()
    journal.record(
        "channel", channel="", action="change_source", source_uuid=UUID_C, auto_position=False
    )
    relay = journal.relay()
    if breaks:
        relay.connect(position=400)
    at = {"Source_Log_File": "binlog.000001", "Relay_Source_Log_File": "binlog.000001"}
    at |= {"Read_Source_Log_Pos": 400, "Exec_Source_Log_Pos": 500}
    journal.row(replica_status=journal.replica_status(Auto_Position=0, **at))
    return journal


@case()
def channel_positions_monotone__of_an_unseen_relay_log(breaks: bool) -> Journal:
    """By GTID set the applier may be sent back, the receiver's end of its file not."""
    journal = Journal("a", UUID_B, 2).begin()
    for position in (500, 499 if breaks else 500):
        listed: Record = {"channel_name": "", "relay_log_file": "relay.000002"}
        listed["relay_log_position"] = position
        journal.row()["row"]["REPLICATION"]["channels"] = [listed]
    return journal


@case()
def applied_relay_gtids_executed(breaks: bool) -> Journal:
    journal, relay, more = replica()
    relay.copy(more[0])
    journal.row(replica_status=status_before_end(journal, relay, 0 if breaks else 300))
    return journal


def status_before_end(journal: Journal, relay: RelayLog, length: int) -> list[Record]:
    """SHOW REPLICA STATUS with everything applied but so many bytes of groups."""
    assert relay.source is not None
    return journal.replica_status(
        Relay_Log_Pos=relay.end - length, Exec_Source_Log_Pos=relay.source[1] - length
    )


@case()
def applied_coordinates_paired(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    status = status_before_end(journal, relay, 300)
    status[0]["Relay_Log_Pos"] += 300 if breaks else 0
    journal.row(replica_status=status)
    return journal


@case()
def applied_coordinates_paired__of_other_files(breaks: bool) -> Journal:
    """The source may have been renamed, but only where the relay log has read files of that."""
    journal, relay, _ = replica()
    named = {"Relay_Source_Log_File": "other.000001", "Source_Log_File": "other.000001"}
    status = journal.replica_status(**named)
    if not breaks:
        relay.connect("other.000001")
    journal.row(replica_status=status)
    return journal


@case()
def retrieved_matches_relay(breaks: bool) -> Journal:
    journal, _, _ = replica()
    text = f"{UUID_C}:1-{4 if breaks else 3}"
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def retrieved_matches_relay__lacks(breaks: bool) -> Journal:
    """What was there at the row before must have been read by now."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    text = f"{UUID_C}:1-{2 if breaks else 3}"
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def retrieved_matches_relay__cut(breaks: bool) -> Journal:
    """A crash may take what was not synced; a server that was stopped in order has all of it."""
    journal, relay, more = replica()
    relay.copy(more[0])
    journal.row(replica_status=status_before_end(journal, relay, 300))
    _start_with_a_cut(journal, relay, is_stopped=breaks)
    text = f"{UUID_C}:1-3"
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def retrieved_matches_relay__cut_and_executed(breaks: bool) -> Journal:
    """What was executed before the start need not come again; what was not is lost."""
    journal, relay, more = replica()
    relay.copy(more[0])
    if not breaks:
        journal.binlog.group(more[0][0]["gtid"], server_id=3)
    journal.row(replica_status=status_before_end(journal, relay, 300 if breaks else 0))
    _start_with_a_cut(journal, relay)
    text = f"{UUID_C}:1-3"
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def retrieved_matches_relay__cut_and_received_again(breaks: bool) -> Journal:
    """What was taken from the relay log at a start may come once more."""
    journal, relay, more = replica()
    relay.copy(more[0])
    journal.row(replica_status=status_before_end(journal, relay, 300))
    _start_with_a_cut(journal, relay, position=more[0][0]["start"])
    if not breaks:
        relay.copy(more[0])
    status = status_before_end(journal, relay, 0 if breaks else 300)
    status[0]["Retrieved_Gtid_Set"] = f"{UUID_C}:1-{3 if breaks else 4}"
    journal.row(replica_status=status)
    return journal


def _start_with_a_cut(
    journal: Journal, relay: RelayLog, *, is_stopped: bool = True, position: int = 4
) -> None:
    """The head of the next relay log has less than was received before the start."""
    if is_stopped:
        journal.binlog.stop()
        journal.record("stop")
    journal.start()
    journal.binlog.open(2)
    relay.open(2, previous=f"{UUID_C}:1-3")
    relay.connect(position=position)


@case()
def retrieved_matches_relay__given_up_unseen(breaks: bool) -> Journal:
    """Of what only a head from before lists all is given up with the relay log, or nothing."""
    journal, origin = Journal("a", UUID_B, 2), Journal("s", UUID_C, 3).begin().groups(4)
    journal.start()
    for known in (journal.executed, journal.used, journal.binlog.gtids):
        for gno in (1, 2, 3):
            known.add(f"{UUID_C}:{gno}")
    journal.binlog.open(5)
    relay = journal.relays[""] = RelayLog(journal, "", "relay", 5)
    relay.gtids = journal.binlog.gtids.copy()
    relay.open()
    *_, last = origin.binlog.groups
    relay.connect(position=last[0]["start"])
    apply(journal, relay, last)
    text = f"{UUID_C}:{'3-4' if breaks else '4'}"
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def master_info_not_ahead_of_relay(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_pos"] += 1 if breaks else 0
    journal.row(replica_status=journal.replica_status(), slave_master_info=stored)
    return journal


def master_info(relay: RelayLog) -> list[Record]:
    """The row of slave_master_info, written just now."""
    assert relay.source is not None
    file, position = relay.source
    return [{"Channel_name": "", "Master_log_name": file, "Master_log_pos": position}]


def relay_info(relay: RelayLog) -> list[Record]:
    """The row of slave_relay_log_info with everything applied."""
    assert relay.source is not None
    file, position = relay.source
    return [
        {
            "Channel_name": "",
            "Relay_log_name": f"./{relay.file}",
            "Relay_log_pos": relay.end,
            "Master_log_name": file,
            "Master_log_pos": position,
        }
    ]


@case()
def relay_info_coordinates_paired(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = relay_info(relay)
    stored[0]["Master_log_pos"] -= 300 if breaks else 0
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    return journal


@case()
def relay_info_coordinates_paired__of_another_log(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = relay_info(relay)
    stored[0]["Relay_log_name"] = journal.binlog.file if breaks else "host-relay.000001"
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    return journal


@case()
def relay_info_coordinates_paired__of_other_files(breaks: bool) -> Journal:
    """As of a source that was renamed; the relay log has nothing of such a file."""
    journal, relay, _ = replica()
    stored = relay_info(relay)
    stored[0]["Master_log_name"] = "other.000001"
    if not breaks:
        relay.connect("other.000001")
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    return journal


@case()
def relay_info_coordinates_paired__written(breaks: bool) -> Journal:
    """What is written with a group names it, whatever the table has at the next row."""
    journal, relay, _ = replica()
    [stored] = relay_info(relay)
    stored["Master_log_pos"] -= 300 if breaks else 0
    write = {"table": "slave_relay_log_info", "reason": "xid", "row": stored}
    journal.record("info_write", channel="", **write)
    return journal


@case()
def relay_info_updated_with_commit(breaks: bool) -> Journal:
    journal, relay, more = replica(replica_parallel_workers=0)
    stored = relay_info(relay)
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    apply(journal, relay, more[0])
    applied = relay.end
    journal.row(
        replica_status=journal.replica_status(Relay_Log_Pos=applied),
        slave_relay_log_info=relay_info(relay),
    )
    apply(journal, relay, more[1])
    journal.row(
        replica_status=journal.replica_status(),
        slave_relay_log_info=stored if breaks else relay_info(relay),
    )
    return journal


@case()
def relay_info_updated_with_commit__beyond(breaks: bool) -> Journal:
    """A commit shows the row before it returns, and the applied position moves after that."""
    journal, relay, more = replica(replica_parallel_workers=0)
    status = journal.replica_status()
    for group in more[: 1 + breaks]:
        relay.copy(group)
    stored = relay_info(relay)
    journal.row(replica_status=status, slave_relay_log_info=stored)
    return journal


@case()
def master_info_flush_points(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_pos"] -= 300 if breaks else 0
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(
        replica_status=journal.replica_status(Replica_IO_Running="No"), slave_master_info=stored
    )
    return journal


@case()
def master_info_flush_points__of_other_files(breaks: bool) -> Journal:
    """The same number and position in a file of another name is not where the receiver stopped."""
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_name"] = "other.000001"
    journal.record("channel", channel="", action="stop_receiver")
    named = {} if breaks else {"Source_Log_File": "other.000001"}
    status = journal.replica_status(Replica_IO_Running="No", **named)
    journal.row(replica_status=status, slave_master_info=stored)
    return journal


@case()
def info_repository_unambiguous(breaks: bool) -> Journal:
    journal = Journal()
    journal.start(
        repositories=[
            {
                "channel": "",
                "repository": "slave_master_info",
                "file": True,
                "table": True,
                "option": "TABLE",
                "started": breaks,
            }
        ]
    )
    return journal


def stored_row(relay: RelayLog, back: int = 0) -> Record:
    """What a write puts into slave_relay_log_info; ``back``: so many bytes before the end."""
    file, position = relay.source or ("", 0)
    return {
        "Channel_name": "",
        "Relay_log_name": f"./{relay.file}",
        "Relay_log_pos": relay.end - back,
        "Master_log_name": file,
        "Master_log_pos": position - back,
    }


def write_row(journal: Journal, row: Record, **more: object) -> None:
    journal.record(
        "info_write",
        table="slave_relay_log_info",
        channel="",
        reason="xid",
        row=row,
        **more,
    )


def started_with(row: Record) -> list[Record]:
    return [
        {
            "channel": "",
            "repository": "slave_relay_log_info",
            "file": False,
            "table": True,
            "option": "TABLE",
            "started": True,
            "row": {name: value for name, value in row.items() if name != "Channel_name"},
        }
    ]


@case()
def info_repository_read_back(breaks: bool) -> Journal:
    """A clean stop leaves the last write."""
    journal, relay, _ = replica()
    write_row(journal, stored_row(relay, 300))
    write_row(journal, stored_row(relay))
    journal.record("stop", clean=True)
    journal.start(repositories=started_with(stored_row(relay, 300 * breaks)))
    return journal


@case()
def info_repository_read_back__reset(breaks: bool) -> Journal:
    """RESET REPLICA empties those of its channel, and no other's."""
    journal, relay, _ = replica()
    write_row(journal, stored_row(relay))
    journal.record("channel", channel="other" if breaks else "", action="reset")
    journal.record("stop", clean=True)
    journal.start(repositories=started_with(stored_row(relay, 300)))
    return journal


@case()
def info_repository_read_back__durable(breaks: bool) -> Journal:
    """A crash may take writes back, but none that was durable."""
    journal, relay, _ = replica()
    write_row(journal, stored_row(relay, 300))
    write_row(journal, stored_row(relay), durable=breaks)
    journal.start(crashed=True, repositories=started_with(stored_row(relay, 300)))
    return journal


@case()
def info_repository_read_back__one_of_several(breaks: bool) -> Journal:
    """A crash may take any number of them back; what it leaves was written once."""
    journal, relay, _ = replica()
    write_row(journal, stored_row(relay, 300))
    for back in (200, 100):
        write_row(journal, stored_row(relay, back), durable=False)
    found = stored_row(relay, 150 if breaks else 200)
    journal.start(crashed=True, repositories=started_with(found))
    return journal


@case()
def info_repository_read_back__recovered(breaks: bool) -> Journal:
    """Recovery commits a prepared transaction with its row; a clean stop leaves none behind."""
    journal, relay, _ = replica()
    write_row(journal, stored_row(relay, 300))
    journal.start(crashed=not breaks, repositories=started_with(stored_row(relay)))
    return journal


def _by_position(*stamps: int, form: str = "rows") -> tuple[Journal, list[list[Record]]]:
    """A replica without GTIDs that has executed two of the source's groups; the other groups."""
    origin = Journal("s", UUID_C, 3).begin()
    for stamp in stamps:
        origin.binlog.group(None, form, original_commit_timestamp=stamp)
    journal = Journal("a", UUID_B, 2, gtid_mode="OFF").begin()
    journal.record(
        "channel", channel="", action="change_source", source_uuid=UUID_C, auto_position=False
    )
    relay = journal.relay()
    relay.connect()
    for group in origin.binlog.groups[:2]:
        _execute(journal, relay, group, form)
    return journal, origin.binlog.groups


def _execute(
    journal: Journal, relay: RelayLog | None, group: list[Record], form: str = "rows"
) -> None:
    if relay is not None:
        relay.copy(group)
    stamp = group[0]["original_commit_timestamp"]
    journal.binlog.group(None, form, server_id=3, original_commit_timestamp=stamp)


def _restart(journal: Journal) -> None:
    """A crash, with everything that is logged kept."""
    file, position = journal.binlog.coordinates
    journal.start(crashed=True, recovered={"file": file, "position": position})
    journal.binlog.open(journal.binlog.number + 1, "")


@case()
def applied_exactly_once(breaks: bool) -> Journal:
    """A transaction that was committed before the start is not executed after it."""
    journal, groups = _by_position(1, 2, 3)
    relay = journal.relays[""]
    _restart(journal)
    if breaks:
        _execute(journal, None, groups[1])
    _execute(journal, relay, groups[2])
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    return journal


@case()
def applied_exactly_once__left_out(breaks: bool) -> Journal:
    """Nothing is left out between the last one before a start and the first one after it."""
    journal, groups = _by_position(1, 2, 3, 4)
    relay = journal.relays[""]
    _restart(journal)
    if breaks:
        relay.copy(groups[2])
    else:
        _execute(journal, relay, groups[2])
    _execute(journal, relay, groups[3])
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    return journal


@case()
def applied_exactly_once__left_out_after_rows(breaks: bool) -> Journal:
    """Rows at which nothing had followed the start yet settle nothing."""
    journal, groups = _by_position(1, 2, 3, 4, 5, 6)
    relay = journal.relays[""]
    _restart(journal)
    [before] = journal.replica_status()
    journal.row(replica_status=[before], gtid_purged="")
    relay.copy(groups[2])
    applied = {name: before[name] for name in ("Relay_Log_Pos", "Exec_Source_Log_Pos")}
    journal.row(replica_status=journal.replica_status(**applied), gtid_purged="")
    if not breaks:
        _execute(journal, None, groups[2])
    _execute(journal, relay, groups[3])
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    for group in groups[4:]:
        _execute(journal, relay, group)
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    return journal


@case()
def applied_exactly_once__statement(breaks: bool) -> Journal:
    """What no transaction protects may be repeated: WL#2775 foretells it."""
    form = "rows" if breaks else "myisam"
    journal, groups = _by_position(1, 2, 3, form=form)
    _restart(journal)
    _execute(journal, None, groups[1], form)
    _execute(journal, journal.relays[""], groups[2], form)
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    return journal


@case()
def applied_exactly_once__twins(breaks: bool) -> Journal:
    """Two transactions of one moment cannot be distinguished."""
    journal, groups = _by_position(1, 2, 3 if breaks else 2)
    _restart(journal)
    _execute(journal, None, groups[1])
    _execute(journal, journal.relays[""], groups[2])
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    return journal


# Tier 2: threads


@case()
def applier_not_failed(breaks: bool) -> Journal:
    """A command stops it as well, but leaves no error."""
    journal, _, _ = replica()
    status = journal.replica_status(Replica_SQL_Running="No", Last_SQL_Errno=1062 if breaks else 0)
    journal.row(replica_status=status)
    return journal


@case()
def info_write_steps_complete(breaks: bool) -> Journal:
    journal, _, _ = replica()
    _write_master(journal, "sync")
    journal.record("channel", channel="", action="stop_receiver")
    if not breaks:
        _write_master(journal, "receiver_stop")
    journal.row(requested_at=journal.ts + 1)
    return journal


@case()
def receiver_not_failed(breaks: bool) -> Journal:
    """While it connects again it reports an error as well."""
    journal, _, _ = replica()
    state = "No" if breaks else "Connecting"
    status = journal.replica_status(Replica_IO_Running=state, Last_IO_Errno=13114)
    journal.row(replica_status=status)
    return journal


@case()
def info_write_steps_complete__next_action(breaks: bool) -> Journal:
    journal, _, _ = replica()
    _write_master(journal, "sync")
    journal.record("channel", channel="", action="stop_receiver")
    journal.record("channel", channel="", action="start_receiver" if breaks else "reset_all")
    return journal


@case()
def info_write_steps_complete__for_another_reason(breaks: bool) -> Journal:
    """The receiver synchronises its repository, and writes it once more when it is stopped."""
    journal, _, _ = replica()
    _write_master(journal, "sync")
    journal.record("channel", channel="", action="stop_receiver")
    for reason in ("sync", "relay_rotate" if breaks else "receiver_stop", "sync"):
        _write_master(journal, reason)
    journal.row(requested_at=journal.ts + 1)
    return journal


@case()
def info_write_steps_complete__one_of_two(breaks: bool) -> Journal:
    """CHANGE REPLICATION SOURCE writes the applier's repository too."""
    journal, _, _ = replica()
    for again in (False, True):
        if again:
            journal.record("channel", channel="", action="change_source", source_uuid=UUID_B)
        if not (again and breaks):
            row = {"Relay_log_name": "relay.000001", "Relay_log_pos": 4}
            journal.record(
                "info_write",
                table="slave_relay_log_info",
                channel="",
                reason="change_source",
                row=row,
            )
        _write_master(journal, "change_source")
    journal.row(requested_at=journal.ts + 1)
    return journal


@case()
def info_write_steps_complete__row_asked_for_before(breaks: bool) -> Journal:
    """The statement may go on while a row is read that was asked for before it."""
    journal, _, _ = replica()
    _write_master(journal, "sync")
    before = journal.ts
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(requested_at=journal.ts + 1 if breaks else before)
    _write_master(journal, "receiver_stop")
    return journal


@case()
def info_write_steps_complete__stopped_already(breaks: bool) -> Journal:
    """STOP REPLICA leaves a thread alone that is stopped, and writes nothing for it."""
    journal, _, _ = replica()
    _write_master(journal, "sync")
    journal.record("channel", channel="", action="stop_receiver")
    _write_master(journal, "receiver_stop")
    if breaks:
        journal.record("channel", channel="", action="start_receiver")
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(requested_at=journal.ts + 1)
    return journal


@case()
def info_write_steps_complete__never_started(breaks: bool) -> Journal:
    """Nor of one that was not started since the channel was set up."""
    journal, _, _ = replica()
    _write_master(journal, "change_source")
    if breaks:
        journal.record("channel", channel="", action="start_receiver")
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(requested_at=journal.ts + 1)
    return journal


@case()
def info_write_steps_complete__stopped_by_itself(breaks: bool) -> Journal:
    """A receiver that ends with an error writes then, and a later command finds it stopped."""
    journal, _, _ = replica()
    _write_master(journal, "sync" if breaks else "receiver_stop")
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(requested_at=journal.ts + 1)
    return journal


@case()
def info_write_steps_complete__purge_between(breaks: bool) -> Journal:
    """The applier purges its relay log while the statement still writes."""
    journal, _, _ = replica()
    _write_master(journal, "sync")
    journal.record("channel", channel="", action="stop_receiver")
    if breaks:
        journal.record("channel", channel="", action="start_receiver")
    else:
        journal.record("channel", channel="", action="relay_purge", to_file="relay.000001")
    _write_master(journal, "receiver_stop")
    return journal


def _write_master(journal: Journal, reason: str) -> None:
    row = {"Master_log_name": "binlog.000001", "Master_log_pos": 4}
    journal.record("info_write", table="slave_master_info", channel="", reason=reason, row=row)


def worker_row(relay: RelayLog, **changes: object) -> Record:
    """What the first worker has stored with the last group of the relay log."""
    assert relay.source is not None
    return {
        "Channel_name": "",
        "Id": 1,
        "Relay_log_name": f"./{relay.file}",
        "Relay_log_pos": relay.end,
        "Master_log_name": relay.source[0],
        "Master_log_pos": relay.source[1],
        "Checkpoint_relay_log_name": f"./{relay.file}",
        "Checkpoint_relay_log_pos": relay.end - 300,
    } | changes


def with_worker(changes: Record, **status: int) -> Journal:
    """A row of a worker's first group, then of its second one, in which something is changed."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status(), slave_worker_info=[worker_row(relay)])
    apply(journal, relay, more[0])
    stored = worker_row(relay)
    for name, value in changes.items():
        stored[name] = stored[name] + value if isinstance(value, int) else value
    told = {"replica_status": journal.replica_status(**status), "slave_worker_info": [stored]}
    journal.row(**told)
    return journal


@case()
def worker_positions_end_groups(breaks: bool) -> Journal:
    """The source's position is that of the group, not of the one before."""
    return with_worker({"Master_log_pos": -300 if breaks else 0})


@case()
def worker_positions_end_groups__relay(breaks: bool) -> Journal:
    """Beyond the end of the relay log at one collection, not at two; it may not be flushed yet."""
    journal = with_worker({"Relay_log_pos": 5_000})
    if breaks:
        journal.records.append(dict(journal.records[-1], collection_id="again"))
    return journal


@case()
def worker_positions_end_groups__no_group(breaks: bool) -> Journal:
    """Behind the group's XID, not before it."""
    return with_worker({"Relay_log_pos": -31 if breaks else 0})


@case()
def worker_positions_end_groups__of_another_log(breaks: bool) -> Journal:
    return with_worker({"Relay_log_name": "binlog.000001" if breaks else "host-relay.000001"})


@case()
def worker_positions_end_groups__of_other_files(breaks: bool) -> Journal:
    return with_worker({"Master_log_name": "other.000001" if breaks else "binlog.000001"})


@case()
def worker_positions_end_groups__checkpoint(breaks: bool) -> Journal:
    """The group is after the checkpoint."""
    return with_worker({"Checkpoint_relay_log_pos": 300 - (not breaks)})


@case()
def worker_positions_end_groups__read(breaks: bool) -> Journal:
    """The relay log may be of a name that is not known; the source's position had been read."""
    names = {"Relay_log_name": "host-relay.000001", "Checkpoint_relay_log_name": ""}
    return with_worker(names | {"Master_log_pos": int(breaks)})


@case()
def worker_positions_end_groups__written_checkpoint(breaks: bool) -> Journal:
    """The coordinator's, which had not passed the group when its worker wrote the row."""
    journal, relay, _ = replica()
    stored = worker_row(relay)
    stored["Checkpoint_relay_log_pos"] += 300 - (not breaks)
    write = {"table": "slave_worker_info", "reason": "xid", "row": stored}
    journal.record("info_write", channel="", **write)
    return journal


@case()
def worker_positions_end_groups__written(breaks: bool) -> Journal:
    """As a worker writes it with its group."""
    journal, relay, _ = replica()
    stored = worker_row(relay)
    stored["Master_log_pos"] -= 300 if breaks else 0
    write = {"table": "slave_worker_info", "reason": "xid", "row": stored}
    journal.record("info_write", channel="", **write)
    return journal
