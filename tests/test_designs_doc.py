"""docs/designs.md: no requirement is left out, and no row names what is not there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tallystick.coordinates.rules.catalogue import RULES
from tallystick.producers.simulator.faults import FAULTS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "designs.md").read_text("utf-8")
PACKAGES = ("coordinates", "producers", "streaming", "expectations", "deploy", "tallystick")
KINDS = ("done", "in part", "not yet", "no meaning in a simulation")
NOTHING = "—"

# What each document names, in its own order; semicolons are between the labels.
REQUIREMENTS = {
    "WL#9452": """
        F-1; F-1.1; F-1.2; F-1.2.1; F-1.2.2; F-1.2.3; F-1.2.4; F-1.3; F-1.4; F-2; F-2.1; F-2.2;
        F-2.3; F-2.4; F-2.5; F-3; F-4; NF-1; NF-1 channels; NF-1 binary log; NF-1 GTID_EXECUTED;
        NF-1 InnoDB; NF-1 non-transactional; NF-1 plugins; NF-1 second collection; I-1;
        I-1 perpetual; I-2; I-3;
        I-4; I-5; I-6; I-7; I-8; column SERVER_UUID; column MASTER; column CHANNELS; column
        STORAGE_ENGINES; key gtid_executed; key binary_log_file; key binary_log_position; key
        channel_name; key relay_log_file; key relay_log_pos; key LSN; key LSN_checkpoint; minimal
        output; restore from the row; state: Collecting Logs Positions; lock
        LOCK_collect_instance_log; lock 1 channels map; lock 2 LOCK_plugin; lock 3 receiver data
        lock; lock 4 binary log; lock 5 global SID map; lock 6 storage engines; Step-1; Step-1
        (a); Step-1 (b); Step-2; Step-2 lock(); Step-2 unlock(); Step-2 collect_info(); Step-3
        (a); Step-3 (b); Step-3 (c); Step-3 (d); Step-3 (e); Step-3 (f); Step-3 (g); Step-3 (h);
        Step-3 (i); Step-3 (j); Step-3 (k); Step-4 (a); Step-4 (b); Step-4 (c); Step-4 (d); Step-5
        (a.1); Step-5 (a.2); Step-5 (a.3); Step-5 (b); Step-6 (a); Step-6 (b); Step-6 (c);
        log_lock(), log_unlock(), log_collect_lsn()
    """,
    "WL#2775": """
        motivation 1; motivation 2; motivation 3; open issue 1; open issue 2; open issue 3; REQ-1;
        REQ-1 default engine; REQ-1 change of engine; REQ-1 column defaults; REQ-1 users; REQ-1
        read lock; REQ-2; REQ-3; REQ-3 (i); REQ-3 (ii); REQ-3 (iii); REQ-3 sync-master-info; REQ-3
        file against table; REQ-4; REQ-5; REQ-5 (i); REQ-5 (ii); REQ-5 (iii); REQ-5 (iv); REQ-5
        (v); REQ-5 transactional repository; REQ-5 other repository; REQ-5 mixed transactions;
        REQ-5 rollback; REQ-5 statements outside; REQ-5 sync-relay-log-info; REQ-6; REQ-6 !T,F
        TABLE; REQ-6 !T,F FILE; REQ-6 T,F TABLE; REQ-6 T,F FILE; REQ-6 !T,!F TABLE; REQ-6 !T,!F
        FILE; REQ-6 T,!F TABLE; REQ-6 T,!F FILE; option master_info_repository; option
        relay_log_info_repository; option default FILE; option rep-engine; option
        relay-log-recovery; class Rpl_info_handler; class Rpl_info_factory; class Master_info;
        Master_Log_File; Read_Master_Log_Pos; Master_Host; Master_User; Master_Password;
        Master_Port; Connect_Retry; Master_SSL_Allowed; Master_SSL_CA_File; Master_SSL_CA_Path;
        Master_SSL_Cert; Master_SSL_Cipher; Master_SSL_Key; Master_SSL_Verify_Server_Cert; class
        Relay_log_info; Relay_Log_File; Relay_Log_Pos; Relay_Master_Log_File; Exec_Master_Log_Pos;
        class Rpl_info_table_access; open_table(); close_table(); find_info_id();
        load_info_fields(); store_info_fields(); create_fake_thd(); drop_fake_thd(); class
        Rpl_info_table; do_init_info(); do_check_info(); do_end_info(); do_flush_info();
        do_reset_info(); is_transactional(); do_prepare_info_for_read();
        do_prepare_info_for_write(); do_set_info(); do_get_info(); class Rpl_info_fields; init();
        configure(); restore(); resize(); struct info_fields; table slave_master_info;
        slave_master_info.Master_id; slave_master_info.Lines; slave_master_info.Master_log_name;
        slave_master_info.Master_log_pos; slave_master_info.Host; slave_master_info.User;
        slave_master_info.Password; slave_master_info.Port; slave_master_info.Connect_retry;
        slave_master_info.Ssl; slave_master_info.Ssl_ca; slave_master_info.Ssl_capath;
        slave_master_info.Ssl_cert; slave_master_info.Ssl_cipher; slave_master_info.Ssl_key;
        slave_master_info.Ssl_verify_servert_cert; slave_master_info.Heartbeat;
        slave_master_info.Ignore_server_ids; slave_master_info.Retry_count; slave_master_info
        primary key; table slave_relay_log_info; slave_relay_log_info.Master_id;
        slave_relay_log_info.Relay_log_name; slave_relay_log_info.Relay_log_pos;
        slave_relay_log_info.Master_log_name; slave_relay_log_info.Master_log_pos;
        slave_relay_log_info primary key; tables in UTF-8; note on direct changes; table
        slave_worker_info
    """,
    "WL#3576": """
        1 binlog position; 2 DDL error; 2 replication state; 2 slave position; 2 master.info; 2
        relay.info; 3 summary block; point-in-time recovery; commit lock; simple commit protocol;
        two-phase commit protocol; backup locking phase; prelock; lock; unlock; time-out; retry;
        back-off; bail out; stall 1; stall 2; lock() does no I/O; engine that ignores its
        time-out; serialised
        commits; critical zone; critical sequence 1; critical sequence 2; critical sequence 3;
        synchronisation phase; validity point; data freeze; invisible changes; logged and not yet
        visible; global write lock; rejected because (a); rejected because (b); rejected because
        (c); rejected because (d); entered in 1; entered in 2; entered in 3; metadata operations;
        optimisation; participating thread; flag backup_synchronization; flag enter_zone;
        invariant of the optimisation; entries of others; class Critical_zone; close(); wait();
        open(); enter(); Ticket; drop(); Ticket destructor; example thread 1; example thread 2;
        example thread 3; counter and mutexes; pthread read lock; pthread unlock by reader;
        pthread write lock; pthread
        unlock by writer
    """,
    "WL#9211": """
        user story 1; user story 2; scope physical; scope logical; out of scope; F-1; F-1.1;
        F-1.2; F-2; F-2 note; F-3; F-4; F-5; F-6; F-7; NF-1; NF-2; interface unchanged; interface
        CLONE; interface clone_status for position; interface clone_status for GTIDs; interface
        GTID_EXECUTED; US-1; US-1 step-1; US-1 step-2; US-1 step-3; US-1.1; US-1.2; US-1.3; column
        STATE; column ERROR_NO; column ERROR_MESSAGE; column BINLOG_FILE; column BINLOG_POSITION;
        column GTID_EXECUTED; clone_progress stages; table mysql.gtid_executed; GTID without
        blocking; GTID in undo header; GTID persister at intervals; purge held back; recovery from
        undo; PHY in TRX_SYS; PHY ordered commit; PHY unordered prepared; PHY XA blocked; PHY at
        the recipient; security; upgrade of a clone; ER_CLONE_DONOR_VERSION; undo format;
        gtid_mode differs; redo unchanged; failure: during clone; failure: during recovery;
        performance of persisting; performance of recovery; performance of commit order; block
        diagram; I-1; I-2; I-3; I-4; I-5; I-6; Format-1; Format-2; Format-3; key point 1; key
        point 1 undo slot; key point 1 written when serialised; key point 1 added after the undo
        is durable; key point 1 mutex; key point 2 thresholds; key point 2 triggered by a clone;
        key point 2 switch of lists; key point 2 oldest number; key point 3 limit; key point 3
        more undo; key point 4 stored number; key point 4 greatest number; key point 4 scan; key
        point 4 skip segments; key point 4 stop in a segment; key point 4 order;
        Clone_Sys::get_gtid_persistor(); GTID_INFO_SIZE; GTID_VERSION; periodic_write();
        THD::pin_gtid(), unpin_gtid(); THD::set_log_reset() and its kin;
        THD::set_gtid_persisted_by_se() and its kin; THD::is_one_phase_commit();
        Gtid_state::update_prev_gtids(); Gtid_state::save_gtids_of_last_binlog_into_table();
        Gtid_table_persistor::fetch_gtids()
    """,
    "Percona Server": """
        LOCK TABLES FOR BACKUP; LTFB lets InnoDB go on; LTFB blocks DDL; UNLOCK TABLES; LOCK
        BINLOG FOR BACKUP; LBFB freezes the read position; LBFB freezes the executed position;
        UNLOCK BINLOG; case #1; case #2; case #3; finishing the redo copy; goal; not a goal;
        coordinates in the InnoDB header; stale after a non-transactional update; fix 1: at each
        update; fix 2: with the table lock; no change in syntax; variable
        have_backup_safe_binlog_info; other utilities decide by it
    """,
}


class Row(NamedTuple):
    """One row: its label, what it names, and its state."""

    label: str
    text: str
    code: tuple[str, ...]
    rules: tuple[str, ...]
    faults: tuple[str, ...]
    tests: tuple[str, ...]
    state: str

    @property
    def kind(self) -> str:
        """The state without what is missing or why."""
        return self.state.partition(":")[0]


def rows_of(document: str) -> list[Row]:
    """The table of a document."""
    section = re.search(
        rf"^## {re.escape(document)}: .*?(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL
    )
    assert section, f"docs/designs.md has no section about {document}"
    return [row(line) for line in section[0].splitlines() if line.startswith("| **")]


def row(line: str) -> Row:
    """A line of a table."""
    cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    assert len(cells) == 6, line
    found = re.fullmatch(r"\*\*(.+?)\*\* (.+)", cells[0])
    assert found, line
    code, rules, faults, tests = map(names, cells[1:5])
    return Row(found[1], found[2], code, rules, faults, tests, cells[5])


def names(cell: str) -> tuple[str, ...]:
    """The names of a cell: each in backquotes, commas between them."""
    found = tuple(re.findall(r"`([^`]+)`", cell))
    assert cell == (", ".join(f"`{name}`" for name in found) or NOTHING), cell
    return found


@functools.cache
def members(path: Path) -> frozenset[str]:
    """The names that a module binds, those within its classes after the name of the class."""
    found = set()

    def bind(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(prefix + node.name)
            targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            found.update(prefix + one.id for one in targets if isinstance(one, ast.Name))
            if isinstance(node, ast.ClassDef):
                bind(node.body, f"{prefix}{node.name}.")

    bind(ast.parse(path.read_text("utf-8")).body, "")
    return frozenset(found)


def is_in_the_code(name: str) -> bool:
    """Whether ``module.function`` exists; without a package it is one of the simulator's."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        parts = ["producers", "simulator", *parts]
    for length in range(1, len(parts)):
        module = ROOT.joinpath(*parts[:length]).with_suffix(".py")
        if module.is_file():
            return ".".join(parts[length:]) in members(module)
    return False


def is_a_test(name: str) -> bool:
    """Whether ``path::test`` exists, or ``path::Class::test``."""
    path, _, test = name.partition("::")
    file = ROOT / path
    if not path.startswith("tests/") or not file.is_file():
        return False
    return test.split("::")[-1].startswith("test_") and test.replace("::", ".") in members(file)


documents = pytest.mark.parametrize("document", REQUIREMENTS)


@documents
def test_every_requirement_has_its_row(document: str) -> None:
    """What the document names stands in the table, once, in order; nothing is made up."""
    expected = [" ".join(label.split()) for label in REQUIREMENTS[document].split(";")]
    assert [one.label for one in rows_of(document)] == expected


@documents
def test_what_a_row_names_exists(document: str) -> None:
    """Functions and tests are in the sources, rules and faults in their registries."""
    missing = [
        (one.label, name)
        for one in rows_of(document)
        for column, exists in (
            (one.code, is_in_the_code),
            (one.rules, RULES.__contains__),
            (one.faults, FAULTS.__contains__),
            (one.tests, is_a_test),
        )
        for name in column
        if not exists(name)
    ]
    assert missing == []


@documents
def test_the_summary_counts_the_rows(document: str) -> None:
    """The table at the top says how many rows are done, done in part, and without a meaning."""
    kinds = [row.kind for row in rows_of(document)]
    counts = [len(kinds), *(kinds.count(kind) for kind in ("done", "in part", KINDS[-1]))]
    assert f"| {document} | {' | '.join(map(str, counts))} |" in PAGE


@documents
def test_a_fault_breaks_a_rule_of_its_row(document: str) -> None:
    """A row does not show off with a fault that is about something else."""
    strangers = [
        (one.label, fault)
        for one in rows_of(document)
        for fault in one.faults
        if FAULTS[fault].must_fire.isdisjoint(one.rules)
    ]
    assert strangers == []


@documents
def test_a_state_says_how_far_it_is(document: str) -> None:
    """What is done has code and a test; what is not says what is missing, or why."""
    for one in rows_of(document):
        assert one.kind in KINDS, one
        if one.kind == "done":
            assert one.state == "done", one
            assert one.code, one
            assert one.tests, one
        else:
            assert len(one.state.partition(": ")[2]) > len("see"), one
        if one.kind == "no meaning in a simulation":
            assert (one.code, one.rules, one.faults, one.tests) == ((), (), (), ()), one


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("log_status.collection.request", True),
        ("log_status.log_status_query.LogStatusQuery.begin", True),
        ("server.channels.Receiver.flushed", True),
        ("coordinates.rules.replication_info.relay_info_coordinates_paired", True),
        ("log_status.collection", False),
        ("log_status.collection.requested", False),
        ("log_status.log_status_query.LogStatusQuery.request", False),
        ("collecting.request", False),
        ("coordinates.rules.replication_info.request", False),
    ],
)
def test_a_name_of_the_code_is_looked_up(name: str, exists: bool) -> None:
    """The check itself: a renamed or moved function is missed."""
    assert is_in_the_code(name) is exists


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("tests/test_designs_doc.py::test_a_test_is_looked_up", True),
        ("tests/test_designs_doc.py::test_nothing", False),
        ("tests/test_designs_doc.py::row", False),
        ("tests/test_designs_doc.py", False),
        ("tests/test_no_doc.py::test_a_test_is_looked_up", False),
        ("deploy/broker.py::test_it", False),
    ],
)
def test_a_test_is_looked_up(name: str, exists: bool) -> None:
    """The check itself: a renamed or moved test is missed."""
    assert is_a_test(name) is exists
