"""`tallystick doctor` and a real broker: topics that are missing, kept badly, or of the future."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Producer

from tallystick.doctor.checks import Place, State
from tallystick.doctor.kafka import check_kafka
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.settings import Settings

CLIENTS = ("confluent-kafka", "kafka-python")


@pytest.fixture(params=CLIENTS)
def asked(broker, request):
    """What is seen by each client, of topics with a prefix of their own."""
    prefix = f"t{uuid.uuid4().hex[:8]}"

    def ask(*roles, **more):
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            topic_prefix=prefix,
            client=request.param,
            **more,
        )
        place = Place("kafka")
        check_kafka(place, settings, roles)
        return {check.name: check for check in place.checks}

    ask.prefix = prefix
    return ask


def make(broker, prefix, **settings):
    """The topics, the journal with settings of its own."""
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    topics = tallystick_topics(2, prefix)
    with closing(kafka_client().open_admin(broker.bootstrap_servers, 15)) as admin:
        for topic in topics:
            own = changed if topic.name.endswith(".journal") else {}
            count = topic.partitions
            assert admin.create(topic.name, count, 1, {**topic.settings, **own}, 15)
    # Until every topic is seen by everybody.
    ensure_topics(broker.bootstrap_servers, tallystick_topics(2, f"{prefix}x"))


def test_topics_that_are_missing_may_be_made_and_are_not(broker, asked):
    """The broker only says whether they could be; asked twice, it says the same."""
    for _ in range(2):
        found = asked("tail", "audit")
        assert State.OK is found["topics"].state
        assert f"not there yet: {asked.prefix}.journal" in found["topics"].text
        assert {State.NOT_TRIED} == {
            found[name].state for name in ("topic settings", "rights of tail", "message times")
        }
    too_many = asked("tail", replication_factor=3)
    assert State.FAILED is too_many["topics"].state
    assert "making it fails" in too_many["topics"].text
    assert State.NOT_TRIED is too_many["rights of tail"].state


def test_topics_as_they_are_made_pass(broker, asked):
    """Each of them, with all rights where nobody is denied any; without messages no time."""
    make(broker, asked.prefix)
    found = asked("tail", "audit")
    assert {
        "brokers": State.OK,
        "topics": State.OK,
        "topic settings": State.OK,
        "rights of tail": State.OK,
        "rights of audit": State.OK,
        "message times": State.NOT_TRIED,
    } == {name: check.state for name, check in found.items()}
    assert "6 are there" in found["topics"].text


@pytest.mark.parametrize(
    ("settings", "state", "texts"),
    [
        (
            {"cleanup_policy": "compact"},
            State.FAILED,
            ("cleanup.policy 'compact', which drops records that count", "set it to 'delete'"),
        ),
        (
            {"max_message_bytes": "10000"},
            State.FAILED,
            (
                "takes messages of 10,000 bytes, and blocks have up to 1,000,000",
                "set max.message.bytes to 1048588 or more",
            ),
        ),
        (
            {"min_insync_replicas": "2"},
            State.FAILED,
            (
                "takes nothing: 1 of 1 replicas are in sync, and min.insync.replicas is 2",
                "set min.insync.replicas below",
            ),
        ),
        (
            {"retention_ms": "3600000"},
            State.WARNING,
            ("is kept for 1 h", "set retention.ms to 604800000"),
        ),
        ({"retention_bytes": "1000"}, State.WARNING, ("is cut by size", "retention.bytes to -1")),
    ],
)
def test_a_journal_that_is_kept_badly_is_named(broker, asked, settings, state, texts):
    """With the setting that makes it right."""
    make(broker, asked.prefix, **settings)
    answer = asked("tail")["topic settings"]
    assert state is answer.state
    assert f"{asked.prefix}.journal" in answer.text
    assert texts[0] in answer.text
    assert texts[1] in answer.fix


def test_a_message_of_the_future_shows_a_wrong_clock(broker, asked):
    """And one of just now does not."""
    make(broker, asked.prefix)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    now_ms = int(time.time() * 1000)
    for at_ms, state in ((now_ms, State.OK), (now_ms + 600_000, State.WARNING)):
        producer.produce(f"{asked.prefix}.journal", b"x", timestamp=at_ms)
        assert 0 == producer.flush(30)
        answer = asked("tail")["message times"]
        assert state is answer.state, answer
    assert f"the newest message of {asked.prefix}.journal is of 5" in answer.text
    assert "NTP" in answer.fix


def test_an_address_that_is_away_is_named_beside_one_that_answers(broker, asked, tallystick):
    """A warning: the clients go on with the other one."""
    servers = f"127.0.0.1:1,{broker.bootstrap_servers}"
    ran = tallystick("doctor", "--for", "tail", "--bootstrap-servers", servers, "--json",
                     "--topic-prefix", asked.prefix)  # fmt: skip
    checks = {check["name"]: check for check in json.loads(ran.out)["checks"]}
    assert "warning" == checks["brokers"]["state"]
    assert "no answer from 127.0.0.1:1 (Connection refused)" in checks["brokers"]["text"]
    assert "ok" == checks["topics"]["state"]
