"""Builders of cuts: a healthy source and replica, to be changed by keyword."""

from __future__ import annotations

from dataclasses import replace

from tallystick.coordinates.audit.cut import Cut
from tests.support.results import checks

SOURCE_UUID = "aaaaaaaa-0000-0000-0000-000000000001"
REPLICA_UUID = "bbbbbbbb-0000-0000-0000-000000000002"
START = 1_767_225_600_000_000
"""2026-01-01, microseconds."""


def instance_cut(collection: int = 1, instance: str = "source-1", **changes) -> Cut:
    """A healthy row of an instance whose position, sets and LSN grow with the collection."""
    position = 100_000 + 5_000 * collection
    executed = f"{SOURCE_UUID}:1-{1000 + 10 * collection}"
    lsn = 19_000_012 + 5_120 * collection
    lsn -= lsn % 512 - 100
    before = {}
    if collection > 1:
        before = {
            "previous_binary_log_file": "binlog.000003",
            "previous_binary_log_position": position - 5_000,
            "previous_gtid_executed": f"{SOURCE_UUID}:1-{990 + 10 * collection}",
            "previous_gtid_purged": f"{SOURCE_UUID}:1-500",
            "previous_lsn": lsn - 5_120,
        }
    cut = Cut(
        collection_id=f"c-{collection:06}",
        instance_id=instance,
        scope="instance",
        ts=START + collection * 10_000_000,
        epoch=1,
        sequence=collection * 1000,
        verdict="CONSISTENT",
        server_uuid=SOURCE_UUID,
        profile="mysql-8.0",
        binary_log_file="binlog.000003",
        binary_log_position=position,
        gtid_executed=executed,
        gtid_purged=f"{SOURCE_UUID}:1-500",
        gtid_owned="",
        lsn=lsn,
        lsn_checkpoint=lsn - 1024,
        journal_binary_log_file="binlog.000003",
        journal_binary_log_position=position,
        journal_gtid_set=executed,
        commit_lag=0,
        commit_lag_max=8,
        commits_are_ordered=True,
        checks=checks(held="executed_within_logged,lsn_order,snapshot_position_on_group_boundary"),
        **before,
    )
    return replace(cut, **changes)


def channel_cut(
    collection: int = 1, instance: str = "replica-1", channel: str = "", **changes
) -> Cut:
    """A healthy row of a channel whose relay log grows with the collection."""
    position = 50_000 + 5_000 * collection
    source_position = 100_000 + 5_000 * collection
    received = f"{SOURCE_UUID}:501-{1000 + 10 * collection}"
    cut = Cut(
        collection_id=f"c-{collection:06}",
        instance_id=instance,
        scope="channel",
        channel=channel,
        ts=START + collection * 10_000_000,
        epoch=1,
        sequence=collection * 1000,
        verdict="CONSISTENT",
        source_uuid=SOURCE_UUID,
        relay_log_file="relay.000007",
        relay_log_position=position,
        applied_relay_log_file="relay.000007",
        applied_relay_log_position=position,
        read_source_log_file="binlog.000003",
        read_source_log_pos=source_position,
        exec_source_log_file="binlog.000003",
        exec_source_log_pos=source_position,
        retrieved_gtid_set=received,
        journal_relay_log_file="relay.000007",
        journal_relay_log_position=position,
        journal_retrieved_gtid_set=received,
        checks=checks(held="relay_position_on_written_boundary"),
    )
    return replace(cut, **changes)


def collection_cuts(collection: int = 1, replicas: int = 1) -> list[Cut]:
    """A whole healthy collection: one source and its replicas."""
    cuts = [instance_cut(collection)]
    for number in range(1, replicas + 1):
        name = f"replica-{number}"
        cuts.append(instance_cut(collection, name, server_uuid=REPLICA_UUID))
        cuts.append(channel_cut(collection, name))
    return cuts
