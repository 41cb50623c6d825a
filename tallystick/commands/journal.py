"""``tallystick journal`` and ``collect``: read or write the journal topic, request collections."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Client,
    Instances,
    Json,
    TopicPrefix,
    a_file,
)
from tallystick.coordinates.values.errors import JournalError
from tallystick.errors import ExitCode, MisuseError
from tallystick.names import require_fit, require_instance
from tallystick.process import stopping
from tallystick.require_broker import require_broker
from tallystick.settings import Settings, load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallystick.coordinates.events.journal import Block

POLL_S = 0.2


def journal(
    *,
    instance: Annotated[
        str | None, typer.Option(help="Only this instance's records.", metavar="INSTANCE")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what arrives, until stopped.")
    ] = False,
    write: Annotated[
        str | None,
        typer.Option(
            help="Put the JSON Lines of FILE (- is standard input) into the topic.",
            metavar="FILE",
            parser=a_file,
        ),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
) -> None:
    """Print the journal topic as JSON Lines, or write JSON Lines into it.

    The form is that of docs/journal.md:
    `tallystick journal | tallystick replay --history-goes-on -` audits it.
    """
    settings = load(
        {"bootstrap_servers": bootstrap_servers, "topic_prefix": topic_prefix, "client": client}
    ).settings
    if write is not None and (follow or instance is not None):
        raise MisuseError("--write: expected neither --follow nor --instance beside it")
    if instance is not None:
        require_fit([instance])
    require_broker(settings)
    if write is not None:
        _write(settings, write)
        return
    _print(settings, instance, follow)


def _print(settings: Settings, instance: str | None, follow: bool) -> None:
    from tallystick.journal_topic import client_of
    from tallystick.producers.journal_reader import JournalReader

    reader = JournalReader(
        settings.bootstrap_servers,
        topic=f"{settings.topic_prefix}.journal",
        notice=terminal.notice,
        instance_id=instance,
        client=client_of(settings),
    )
    unseen = instance
    try:
        with stopping() as stop:
            while not stop.is_set() and (follow or not reader.is_past_start):
                for block in reader.poll(POLL_S):
                    sys.stdout.writelines(f"{line}\n" for line in _lines(block))
                sys.stdout.flush()
                if unseen is not None and reader.is_past_start:
                    _require(unseen, reader.instances, follow)
                    unseen = None
    finally:
        reader.close()


def _require(instance: str, known: Collection[str], follow: bool) -> None:
    try:
        require_instance(instance, known)
    except MisuseError as error:
        if not follow:
            raise
        terminal.notice(f"{error}; it is waited for")


def _lines(block: Block) -> Iterator[str]:
    """The records of a block; the number of one that cannot be read is left out, as a gap."""
    from tallystick.coordinates.events.json_lines_writer import block_to_lines

    try:
        yield from list(block_to_lines(block))
        return
    except JournalError:
        pass  # one of them; which, is found out one by one
    for index in range(len(block)):
        try:
            yield from list(block_to_lines(block.take(index, index + 1)))
        except JournalError as error:
            terminal.notice(f"skipped: {error}")


def _write(settings: Settings, file: str) -> None:
    from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
    from tallystick.coordinates.events.later_epochs import in_later_epochs
    from tallystick.coordinates.rules.explanation import fill
    from tallystick.journal_topic import epochs_after, open_claims, open_journal, prepare_topics
    from tallystick.runs.replay import lines_of, refusal

    prepare_topics(settings, "journal", "collect")
    claims, sink = open_claims(settings), open_journal(settings)
    written = 0

    def next_epoch(name: str) -> int:
        return claims.claim(epochs_after(settings, [name]))[name]

    try:
        for block in in_later_epochs(blocks_from_lines(lines_of(file)), next_epoch):
            sink.send(block)
            written += len(block)
        sink.flush()
    except JsonLinesError as error:
        name = "standard input" if file == terminal.STANDARD_STREAM else file
        before = f"written before it: {fill('{count:n record}', {'count': written})}"
        raise MisuseError(f"{refusal(name, error)}\n{before}") from None
    finally:
        claims.close()
        sink.close()
    count = fill("{count:n record}", {"count": written})
    terminal.show(f"{count} written to {settings.topic_prefix}.journal")


def collect(
    *,
    instance: Instances = None,
    deadline: Annotated[
        float | None,
        typer.Option(min=0.1, max=86_400, help="Wait so many seconds for rows.", metavar="SECONDS"),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    json: Json = False,
) -> None:
    """Ask the fleet for one collection now, and print the rows as they come.

    With --instance (or the setting `instances`) it ends when all of them have answered, else at the
    deadline. Exit status: 0 when all answered with a row, 3 when one did not, or nobody did.
    """
    settings = load(
        {
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": topic_prefix,
            "instances": instance,
            "collect_deadline_s": deadline,
        }
    ).settings
    require_broker(settings)
    answers = _collect(settings, json)
    missing = [name for name in settings.instances if name not in answers]
    for name in missing:
        terminal.notice(f"{name} has not answered within {settings.collect_deadline_s:g} s")
    if not answers:
        terminal.notice("nobody has answered: is a producer running?")
    is_complete = answers and not missing and all("row" in body for body in answers.values())
    raise typer.Exit(ExitCode.CONSISTENT if is_complete else ExitCode.UNDECIDED)


def _collect(settings: Settings, json: bool) -> dict[str, dict[str, Any]]:
    from tallystick.coordinates.events.collect_request import CollectRequest
    from tallystick.journal_topic import client_of
    from tallystick.producers.journal_reader import JournalReader, send_request

    now_us = time.time_ns() // 1_000
    request = CollectRequest(f"collect-{now_us}", now_us, frozenset(settings.instances) or None)
    reader = JournalReader(
        settings.bootstrap_servers,
        topic=f"{settings.topic_prefix}.journal",
        notice=terminal.notice,
        from_beginning=False,
        client=client_of(settings),
    )
    answers: dict[str, dict[str, Any]] = {}
    try:
        send_request(
            settings.bootstrap_servers,
            request,
            f"{settings.topic_prefix}.collect",
            client_of(settings),
        )
        terminal.notice(f"asked for collection {request.collection_id}")
        end = time.monotonic() + settings.collect_deadline_s
        with stopping() as stop:
            while not stop.is_set() and time.monotonic() < end:
                if settings.instances and answers.keys() >= set(settings.instances):
                    break
                for block in reader.poll(POLL_S):
                    if not request.concerns(block.instance_id):
                        continue  # a producer may answer for its whole fleet
                    for answer, body in _answers(block, request.collection_id):
                        answers[block.instance_id] = body
                        _show(block.instance_id, answer, body, json)
    finally:
        reader.close()
    return answers


def _answers(block: Block, collection_id: str) -> Iterator[tuple[Block, dict[str, Any]]]:
    """The block's answers to one collection, each as a block of one record and its body."""
    from tallystick.coordinates.events.journal import RecordType, Stream

    types = zip(block.columns["stream"].tolist(), block.columns["type"].tolist(), strict=True)
    for index, found in enumerate(types):
        if found == (Stream.SERVER, RecordType.LOG_STATUS):
            try:
                body = block.body(index)
            except JournalError:
                continue  # whose answer it is, nobody can read
            if body.get("collection_id") == collection_id:
                yield block.take(index, index + 1), body


def _show(instance_id: str, answer: Block, body: dict[str, Any], json: bool) -> None:
    from tallystick.coordinates.events.json_lines_writer import block_to_lines

    if json:
        sys.stdout.writelines(f"{line}\n" for line in block_to_lines(answer))
        sys.stdout.flush()
        return
    if "row" not in body:
        terminal.show((f"{instance_id}: no row: {body.get('error', 'and no error')}", "yellow"))
        return
    terminal.show((instance_id, "bold"), *_row_lines(body))


def _row_lines(body: dict[str, Any]) -> Iterator[str]:
    from tallystick.coordinates.events.log_status import read_log_status

    state = read_log_status(body, tags=True)
    if state.position is not None:
        yield f"  binary log     {state.position}"
    if state.executed is not None:
        yield f"  gtid_executed  {state.executed}"
    if state.lsn is not None:
        yield f"  LSN            {state.lsn} (checkpoint {state.lsn_checkpoint})"
    for channel in state.channels.values():
        if channel.is_listed:
            yield f"  channel {channel.channel!r}: relay log {channel.relay or 'empty'}"
    for problem in state.problems:
        yield f"  {problem.datum}: expected {problem.expected}, found {problem.observed}"
