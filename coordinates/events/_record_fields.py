"""The fields of each kind of server record, and their values (``docs/journal.md``).

Only shape is checked: names, types, ranges, closed lists. What a server reported (the row
and what was read beside it) is kept as it came, to be judged by the audit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tallystick.coordinates.events._field_checks import (
    UINT32_MAX,
    Check,
    FieldError,
    Integer,
    ListOf,
    OneOf,
    Shape,
    anything,
    boolean,
    channel_name,
    identifier,
    log_file,
    missing_key,
    name,
    switch,
    table_row,
    table_rows,
    text,
    uuid_text,
)
from tallystick.coordinates.events.journal import CLONE_STAGES, RecordType, parse_body
from tallystick.coordinates.values._gtid_text import is_uuid
from tallystick.coordinates.values.errors import GtidSetParseError, JournalError
from tallystick.coordinates.values.gtid import Gtid, GtidSet


def server_uuid(value: Any) -> str:
    """The UUID of a server."""
    if not is_uuid(name(value)):
        raise FieldError("a UUID", value)
    return uuid_text(value)


_COUNT = Integer()
_PORTION = Integer(1)
_SERVER_ID = Integer(0, UINT32_MAX)
_POSITION = Integer()

_VARIABLES = Shape(
    {
        "gtid_mode": OneOf("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"),
        "log_bin": switch,
        "binlog_error_action": OneOf("ABORT_SERVER", "IGNORE_ERROR"),
        "log_replica_updates": switch,
        "binlog_order_commits": switch,
        "replica_preserve_commit_order": switch,
        "replica_parallel_workers": _COUNT,
        "max_connections": _COUNT,
        "commit_lag_max": _COUNT,
        "sync_source_info": _COUNT,
        "relay_log_info_transactional": switch,
        "innodb_redo_log_capacity": _PORTION,
        "innodb_redo_log_enabled": switch,
        "innodb_flush_log_at_trx_commit": Integer(0, 2),
        "group_replication_group_name": uuid_text,
        "have_backup_safe_binlog_info": switch,
        "server_uuid": server_uuid,
        "server_id": _SERVER_ID,
    },
    is_open=True,
    aliases={
        "log_slave_updates": "log_replica_updates",
        "slave_preserve_commit_order": "replica_preserve_commit_order",
        "slave_parallel_workers": "replica_parallel_workers",
        "sync_master_info": "sync_source_info",
    },
)

_REPOSITORY = Shape(
    {
        "channel": channel_name,
        "repository": OneOf("slave_master_info", "slave_relay_log_info"),
        "file": boolean,
        "table": boolean,
        "option": OneOf("FILE", "TABLE"),
        "started": boolean,
        "engine": name,
        "row": table_row,
    }
)

_BINARY_LOGS = ListOf(
    Shape(
        {"name": text, "size": _COUNT},
        ("name",),
        is_open=True,
        aliases={"Log_name": "name", "File_size": "size"},
    )
)

_LOG_STATUS = Shape(
    {
        "collection_id": name,
        "requested_at": _COUNT,
        "received_at": _COUNT,
        "row": anything,
        "error": Shape(
            {
                "code": _COUNT,
                "message": text,
                "column": text,
                "unreachable": boolean,
                "timed_out": boolean,
            }
        ),
        "gtid_executed_first": text,
        "gtid_executed_table": text,
        "slave_master_info": table_rows,
        "slave_relay_log_info": table_rows,
        "slave_worker_info": table_rows,
        "binary_logs": _BINARY_LOGS,
        "binary_logs_again": _BINARY_LOGS,
        "gtid_purged": text,
        "replica_status": table_rows,
        "channels_went_on": boolean,
        "gtid_owned": text,
        "prepared_xa": text,
        "innodb": Shape(
            dict.fromkeys(("current", "written", "flushed", "checkpoint"), anything), is_open=True
        ),
        "trx_sys": Shape(
            dict.fromkeys(("binary_log_file", "binary_log_position"), anything), is_open=True
        ),
        "clone_status": table_row,
        "clone_progress": table_rows,
        "replication_connection_status": table_rows,
        "replication_applier_status_by_worker": table_rows,
        "unread": ListOf(
            Shape({"part": name, "code": _COUNT, "message": text}, ("part",)),
        ),
    },
    ("collection_id",),
)

RESOURCES = ("LOCK_collect_instance_log", "channel_map", "LOCK_plugin", "binlog", "gtid_state")


def one_gtid(value: Any) -> str:
    """A GTID, in the spelling of GTID sets."""
    try:
        return str(Gtid.parse(text(value)))
    except GtidSetParseError:
        raise FieldError("a GTID, as 3e11fa47-71ca-11e1-9e33-c80aa9429562:23", value) from None


def gtid_set(value: Any) -> str:
    """A GTID set."""
    try:
        GtidSet.parse(text(value))
    except GtidSetParseError as error:
        raise FieldError(f"a GTID set ({error})", value) from None
    return str(value)


def resource(value: Any) -> str:
    name = text(value)
    if name not in RESOURCES and not name.startswith(("channel:", "engine:")):
        raise FieldError(f"one of {', '.join(RESOURCES)}, channel:NAME, engine:NAME", value)
    return name


_CHANNEL_ADMINISTRATION: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    "change_source": (
        {
            "source_uuid": uuid_text,
            "source_instance": name,
            "auto_position": boolean,
            "ignore_server_ids": ListOf(_SERVER_ID),
            "filtered": boolean,
            "source_log_file": text,
            "source_log_pos": _POSITION,
        },
        (),
    ),
    **{
        action: ({}, ())
        for action in (
            "start_receiver",
            "stop_receiver",
            "start_applier",
            "reconnect",
            "reset",
            "reset_all",
            "relay_log_recovery",
        )
    },
    "flush_relay_logs": ({"source_log_file": log_file, "source_log_pos": _POSITION}, ()),
    "stop_applier": ({"errno": _COUNT}, ()),
    "relay_purge": ({"to_file": log_file}, ("to_file",)),
}

_COLLECTION_STEPS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    **{step: ({}, ()) for step in ("enter", "error", "leave")},
    **{
        step: ({"resource": resource, "lsn": _COUNT}, ("resource",))
        for step in ("lock", "collect", "unlock")
    },
}

_ZONE_STEPS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    "close": ({"zone": name, "tables": ListOf(name)}, ()),
    **{step: ({"zone": name}, ()) for step in ("wait", "validity_point", "open")},
    **{step: ({"zone": name, "ticket": identifier}, ("ticket",)) for step in ("enter", "drop")},
    **{
        step: (
            {"zone": name, "thread": identifier, "ticket": identifier, "tables": ListOf(name)},
            ("thread",),
        )
        for step in ("write_binlog", "commit", "unlock_tables")
    },
}

_ENGINE_LOCK_FIELDS: dict[str, Check] = {
    "engine": name,
    "round": _COUNT,
    "rounds_max": _PORTION,
    "timeout": _COUNT,
}
_ENGINE_LOCK_STEPS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    **dict.fromkeys(("prelock", "lock", "timeout"), (_ENGINE_LOCK_FIELDS, ("engine",))),
    **dict.fromkeys(("begin", "done", "unlock_all", "retry", "abort"), (_ENGINE_LOCK_FIELDS, ())),
}

_TABLES = ListOf(Shape({"name": name, "engine": name, "rows": _COUNT, "checksum": text}, ("name",)))

_REPLICA_POSITIONS = ListOf(
    Shape(
        {
            "channel": channel_name,
            "source_instance": name,
            "read_source_log_file": text,
            "read_source_log_pos": _POSITION,
            "exec_source_log_file": text,
            "exec_source_log_pos": _POSITION,
            "relay_log_file": text,
            "relay_log_pos": _POSITION,
            "slave_master_info": table_row,
            "slave_relay_log_info": table_row,
        },
        ("channel",),
    )
)

_SUMMARY: dict[str, Check] = {
    "binlog_file": log_file,
    "binlog_position": _POSITION,
    "gtid_executed": text,
    "tables": _TABLES,
    "channels": _REPLICA_POSITIONS,
    "session": identifier,
    "coordinates_from": OneOf("innodb_header", "source_status", "log_status"),
    "lsn": _COUNT,
    "binlog_copy": Shape({"file": log_file, "position": _POSITION}, ("file", "position")),
}
"""What an image has of itself."""

_BACKUP_STEPS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    "begin": (
        {"backup_id": name, "session": identifier, "tables": ListOf(name)},
        ("backup_id",),
    ),
    "image": ({"backup_id": name, **_SUMMARY}, ("backup_id",)),
    "end": ({"backup_id": name, "session": identifier, "error": text}, ("backup_id",)),
    "checksum": (
        {"binlog_file": log_file, "binlog_position": _POSITION, "tables": _TABLES},
        ("binlog_file", "binlog_position", "tables"),
    ),
    "restore": ({"backup_id": name, "peer": name, **_SUMMARY}, ("backup_id", "peer")),
    "replay": (
        {
            "backup_id": name,
            "peer": name,
            "from_file": log_file,
            "from_position": _POSITION,
            "stop_file": log_file,
            "stop_position": _POSITION,
            "stop_time": _COUNT,
            "stop_gtid": gtid_set,
            "excluded": gtid_set,
        },
        ("backup_id", "peer", "from_file", "from_position"),
    ),
    "replayed": (
        {
            "backup_id": name,
            "peer": name,
            "to_file": log_file,
            "to_position": _POSITION,
            "gtid_executed": text,
            "tables": _TABLES,
        },
        ("backup_id", "peer", "to_file", "to_position"),
    ),
}


@dataclass(frozen=True, slots=True)
class Cases:
    """An object whose fields depend on the value under ``key``."""

    key: str
    cases: Mapping[str, Shape]

    @property
    def fields(self) -> set[str]:
        """The fields of any case."""
        return {name for shape in self.cases.values() for name in shape.fields}

    def __call__(self, value: dict[str, Any]) -> dict[str, Any]:
        if self.key not in value:
            raise missing_key(self.key, value)
        name = value[self.key]
        shape = self.cases.get(name) if type(name) is str else None
        if shape is None:
            raise FieldError(f"one of {', '.join(self.cases)}", name, path=self.key)
        return shape(value)


_CLONE_FIELDS: dict[str, Check] = {
    "peer": name,
    "stage": OneOf(*CLONE_STAGES),
    "donor_version": text,
    "recipient_version": text,
    "binlog_file": text,
    "binlog_position": _POSITION,
    "gtid_executed": text,
    "error": anything,
    "message": text,
    "blocks": OneOf("xa"),
    "lsn": _COUNT,
    "destination": text,
    "source": text,
    "begin_time": text,
    "not_before": _COUNT,
}
_DONOR_FIELDS: dict[str, Check] = {**_CLONE_FIELDS, "role": OneOf("donor")}
_RECIPIENT_FIELDS: dict[str, Check] = {**_CLONE_FIELDS, "role": OneOf("recipient")}
_CLONE_STEPS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    "begin": (_CLONE_FIELDS, ()),
    "refused": (_RECIPIENT_FIELDS, ()),
    "version": (_RECIPIENT_FIELDS, ("donor_version", "recipient_version")),
    "stage": (_RECIPIENT_FIELDS, ("stage",)),
    "order_forced": (_DONOR_FIELDS, ()),
    "prepared_awaited": (_DONOR_FIELDS, ()),
    "donor_blocked": (_DONOR_FIELDS, ()),
    "position_read": (_DONOR_FIELDS, ("lsn",)),
    "commit": (_DONOR_FIELDS, ("binlog_file", "binlog_position")),
    "donor_released": (_DONOR_FIELDS, ()),
    "order_released": (_DONOR_FIELDS, ()),
    "end": (_CLONE_FIELDS, ()),
    "recovered": (_RECIPIENT_FIELDS, ("gtid_executed", "lsn")),
    "found": (_RECIPIENT_FIELDS, ()),
}


_PERSISTER_STEPS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    "prepare": ({"gtid": one_gtid}, ("gtid",)),
    "commit": ({"gtid": one_gtid, "trx_no": _COUNT}, ("gtid", "trx_no")),
    "write": (
        {"gtids": gtid_set, "oldest_trx_no": _COUNT, "trx_num_gtid": _COUNT},
        ("gtids",),
    ),
    "number": ({"trx_num_gtid": _COUNT}, ("trx_num_gtid",)),
    "purge": ({"trx_no": _COUNT}, ("trx_no",)),
    "recover": ({"gtids": gtid_set, "trx_num_gtid": _COUNT}, ("gtids",)),
}


def _cases(
    key: str,
    common: dict[str, Check],
    cases: Mapping[str, tuple[dict[str, Check], tuple[str, ...]]],
) -> Cases:
    return Cases(
        key,
        {
            name: Shape({key: text, **common, **fields}, (key, *common, *required))
            for name, (fields, required) in cases.items()
        },
    )


RECORD_SHAPES: Mapping[RecordType, Shape | Cases] = {
    RecordType.START: Shape(
        {
            "server_uuid": server_uuid,
            "server_id": _SERVER_ID,
            "version": text,
            "cluster": name,
            "profile": OneOf("mysql-8.0", "wl9452"),
            "crashed": boolean,
            "recovered": Shape({"file": log_file, "position": _POSITION}, ("file", "position")),
            "data_lineage": OneOf("restored", "cloned"),
            "gtid_executed_table": text,
            "undo_gtids": text,
            "repositories": ListOf(_REPOSITORY),
            "variables": _VARIABLES,
        },
        ("server_uuid",),
    ),
    RecordType.VARIABLES: Shape({"variables": _VARIABLES}, ("variables",)),
    RecordType.STOP: Shape({"clean": boolean}),
    RecordType.BINLOG_PURGE: Shape({"to_file": log_file}, ("to_file",)),
    RecordType.BINLOG_RESET: Shape({}),
    RecordType.GTID_PURGED: Shape({"added": text}, ("added",)),
    RecordType.CHANNEL: _cases("action", {"channel": channel_name}, _CHANNEL_ADMINISTRATION),
    RecordType.LOG_STATUS: _LOG_STATUS,
    RecordType.COLLECTION: _cases(
        "step", {"collection_id": name, "session": identifier}, _COLLECTION_STEPS
    ),
    RecordType.INFO_WRITE: Shape(
        {
            "table": OneOf("slave_master_info", "slave_relay_log_info", "slave_worker_info"),
            "channel": channel_name,
            "reason": OneOf(
                "relay_rotate",
                "change_source",
                "receiver_stop",
                "sync",
                "applier_stop",
                "xid",
                "query",
                "statement",
            ),
            "row": table_row,
            "durable": boolean,
        },
        ("table", "channel", "reason", "row"),
    ),
    RecordType.ZONE: _cases("step", {}, _ZONE_STEPS),
    RecordType.ENGINE_LOCK: _cases("step", {}, _ENGINE_LOCK_STEPS),
    RecordType.BACKUP_LOCK: Shape(
        {
            "step": OneOf("lock", "unlock"),
            "lock": OneOf("tables", "binlog", "instance", "global_read"),
            "session": identifier,
            "lsn": _COUNT,
        },
        ("step", "lock"),
    ),
    RecordType.STATEMENT: Shape(
        {"engine": name, "type": OneOf("dml", "ddl"), "binlogged": boolean}, ("engine", "type")
    ),
    RecordType.CLONE: _cases("step", {"role": OneOf("donor", "recipient")}, _CLONE_STEPS),
    RecordType.GTID_PERSISTER: _cases("step", {}, _PERSISTER_STEPS),
    RecordType.BACKUP: _cases("step", {}, _BACKUP_STEPS),
    RecordType.REDO_STATUS: Shape(
        dict.fromkeys(("current", "written", "flushed", "checkpoint"), _COUNT)
    ),
    RecordType.OBSERVER: Shape({"clock": name}, ("clock",)),
    RecordType.HEARTBEAT: Shape({"ends": boolean}),
    RecordType.GAP: Shape({"channel": channel_name, "reason": text}),
}
"""The body of each kind of server record."""

KINDS_WITH_CHANNEL = frozenset(
    record_type for record_type, shape in RECORD_SHAPES.items() if "channel" in shape.fields
)


_RECORD_TYPES = {int(record_type): record_type for record_type in RecordType}
_FLAT_TEXT = 256


def _read_body(record_type: RecordType, text: str, channel: str | None) -> dict[str, Any]:
    body = parse_body(text)
    if channel is not None:
        body.setdefault("channel", channel)
    if "\\ud" in text or "\\uD" in text:
        json.dumps(body, ensure_ascii=False).encode()
    return RECORD_SHAPES[record_type](body)


# Steps of locks and stages are few texts, which each instance and each collection repeats.
_read_flat_body = lru_cache(maxsize=2048)(_read_body)


def read_server_record(code: int, text: str, channel: str | None) -> dict[str, Any]:
    """The body of a server record, with its channel, as JSON Lines would have it.

    Args:
        code: Its type.
        text: Its body.
        channel: Its channel, None without one.

    Raises:
        JournalError: It is no JSON, or its fields do not fit its kind.
    """
    record_type = _RECORD_TYPES.get(code)
    if record_type is None:
        raise JournalError(f"unknown type {code}")
    if record_type not in KINDS_WITH_CHANNEL:
        channel = None
    try:
        if len(text) <= _FLAT_TEXT and text.rfind("{") <= 0 and "[" not in text:
            return dict(_read_flat_body(record_type, text, channel))
        return _read_body(record_type, text, channel)
    except FieldError as error:
        found = f", found {repr(error.value)[:80]}" if error.shown else ""
        raise JournalError(f"key {error.path!r}: expected {error.expected}{found}") from None
    except UnicodeEncodeError:
        raise JournalError("expected text without lone surrogates") from None
    except RecursionError:
        raise JournalError("expected values less deeply nested") from None
