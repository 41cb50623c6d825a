"""Where settings come from, which source wins, and what is refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tallystick.producers.given_files import BYTES_MAX
from tallystick.settings import FILE, Settings, load


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_each_source_goes_over_the_next(monkeypatch):
    """Flag over environment over file over default, and each value knows its origin."""
    FILE.write_text('keep_runs = 5\nspark_memory = "3g"\nclient = "kafka-python"\n')
    monkeypatch.setenv("TALLYSTICK_KEEP_RUNS", "6")
    monkeypatch.setenv("TALLYSTICK_SPARK_MEMORY", "4g")
    loaded = load({"keep_runs": 7, "spark_partitions": None})
    found = loaded.settings
    assert (7, "4g", "kafka-python", 1) == (
        found.keep_runs,
        found.spark_memory,
        found.client,
        found.spark_partitions,
    )
    assert ["flag", "environment", "file", "default"] == [
        loaded.origins[name] for name in ("keep_runs", "spark_memory", "client", "spark_partitions")
    ]


def test_lists_are_read_from_every_source(monkeypatch):
    """An array in TOML, commas in the environment, several values of a flag."""
    FILE.write_text('instances = ["a", "b,c"]\n')
    assert ("a", "b,c") == load().settings.instances
    monkeypatch.setenv("TALLYSTICK_INSTANCES", "d, e")
    assert ("d", "e") == load().settings.instances
    assert ("f",) == load({"instances": ["f"]}).settings.instances
    assert ("d", "e") == load({"instances": []}).settings.instances


def test_config_shows_value_and_origin(tallystick, monkeypatch):
    """`tallystick config --json` has every setting, and the text names the origins."""
    monkeypatch.setenv("TALLYSTICK_KEEP_RUNS", "6")
    shown = json.loads(tallystick("config", "--json").out)
    assert set(Settings.model_fields) == set(shown)
    assert {"value": 6, "origin": "environment"} == shown["keep_runs"]
    assert {"value": ".tallystick", "origin": "default"} == shown["directory"]
    lines = tallystick("config").out.splitlines()
    assert any(line.startswith("keep_runs") and "(environment)" in line for line in lines)
    assert any(line.split()[:3] == ["metrics_port", "off", "(default):"] for line in lines)


def test_passwords_of_servers_are_no_settings(tallystick, monkeypatch):
    """They are left to who connects, and are not shown."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", "hunter2")
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD_SOURCE_A", "hunter3")
    shown = tallystick("config")
    assert 0 == shown.code
    assert "hunter" not in shown.out + shown.err
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORDS", "hunter4")
    refused = tallystick("config")
    assert 2 == refused.code
    assert "TALLYSTICK_MYSQL_PASSWORDS is no setting" in refused.err
    assert "hunter" not in refused.err


def test_rules_are_disabled_by_their_names(tallystick):
    """Those of the catalogue, in the file of settings."""
    FILE.write_text('disabled = ["lsn_order", "no_errant_gtids"]')
    assert ("lsn_order", "no_errant_gtids") == load().settings.disabled


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("keep_runs = 0", "keep_runs: input should be greater than or equal to 1, found '0'"),
        ("keep_run = 3", "'keep_run' is no setting; did you mean 'keep_runs'?"),
        ("keep_runs = ", "is no TOML"),
        ('bootstrap_servers = "kafka"', "found 'kafka'"),
        ('disabled = ["lsn_orde"]', "no rule has the name 'lsn_orde'; did you mean"),
        ('instances = ["a", ""]', "instances: expected an instance's name, text that is not empty"),
        ('instances = ["a\\u001bb"]', "1 to 255 bytes of printable text, found 'a\\x1bb'\n"),
        ('client = "librdkafka"', "found 'librdkafka'"),
        ('spark_memory = "much"', "found 'much'"),
        ('directory = ""', "directory: expected a path, found ''"),
        ("serve_token_file = 3", "serve_token_file: expected a path, found '3'"),
        ('spark_checkpoint = "/var/lib"', "is no URL of a folder: expected SCHEME://"),
        ('spark_checkpoint = "hdfs://nn:8020/"', "found 'hdfs://nn:8020/'"),
        ('directory = "a\\u0000b"', "is no TOML: a NUL character is in a text"),
        (f"keep_runs = {'[' * 100_000}", "is no TOML: nested too deeply"),
        (f"kafka{'.a' * 1_000} = 1", "is no TOML: nested too deeply"),
    ],
)
def test_a_bad_file_is_misuse(tallystick, toml, said):
    """Status 2 and one sentence that quotes the value and names the file."""
    FILE.write_text(toml)
    ran = tallystick("config")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert said in ran.err
    assert "tallystick.toml" in ran.err


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (FILE.mkdir, "cannot be read: Is a directory"),
        (lambda: FILE.touch() or os.truncate(FILE, BYTES_MAX + 1), "cannot be read: it is longer"),
        (lambda: FILE.symlink_to("nowhere"), "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_none_is_not_passed_over(tallystick, make, said):
    """Somebody meant settings to be in it."""
    make()
    ran = tallystick("config")
    assert (2, "", f"tallystick: 'tallystick.toml' {said}") == (
        ran.code, ran.out, ran.err.rstrip()[: len(said) + 30],
    )  # fmt: skip


@pytest.mark.parametrize("value", ["{", "[]", '{"sasl.password": "sesame"}'])
def test_the_properties_of_kafka_are_a_variable_each(tallystick, monkeypatch, value):
    """All of them in one are refused, and not shown."""
    monkeypatch.setenv("TALLYSTICK_KAFKA", value)
    ran = tallystick("config")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "TALLYSTICK_KAFKA: expected a variable TALLYSTICK_KAFKA_… for each property" in ran.err
    assert "sesame" not in ran.err


def test_every_variable_that_the_pages_name_is_taken(monkeypatch):
    """A name in a page that a command refuses would be a way that nobody can go."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").glob("*.md"), root / "SECURITY.md"]
    named = {
        name
        for page in pages
        for name in re.findall(r"\bTALLYSTICK_[A-Z][A-Z_]*[A-Z]\b", page.read_text("utf-8"))
    }
    assert "TALLYSTICK_RELAY_LOG_TOKEN" in named
    no_command = {"TALLYSTICK_NAME"}
    settings = {f"TALLYSTICK_{name.upper()}" for name in Settings.model_fields}
    for name in named - no_command - settings:
        if not name.startswith("TALLYSTICK_KAFKA_"):
            monkeypatch.setenv(name, "0123456789abcdef")
    load()


def test_a_bad_variable_is_misuse(tallystick, monkeypatch):
    """An unfit value is quoted under the variable's name."""
    monkeypatch.setenv("TALLYSTICK_KEEP_RUNS", "many")
    ran = tallystick("config")
    assert (2, "") == (ran.code, ran.out)
    assert "TALLYSTICK_KEEP_RUNS: " in ran.err
    assert "'many'" in ran.err


def test_an_unknown_variable_keeps_its_secret(tallystick, monkeypatch):
    """A variable that is no setting is refused by name; what it holds is not shown."""
    monkeypatch.setenv("TALLYSTICK_PASSWORD", "open sesame")
    ran = tallystick("config")
    assert (2, "") == (ran.code, ran.out)
    assert "TALLYSTICK_PASSWORD is no setting" in ran.err
    assert "sesame" not in ran.err


@pytest.mark.parametrize("name", ["page_url", "bootstrap_servers"])
def test_an_unfit_address_keeps_its_password(tallystick, name):
    """From whatever source it comes."""
    FILE.write_text(f'{name} = "https://me:sesame@host/"\n')
    ran = tallystick("config")
    assert (2, "") == (ran.code, ran.out)
    assert f"{name}: " in ran.err
    assert "sesame" not in ran.err


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ("open sesame", "is no JSON object"),
        ('["sesame"]', "valid dictionary"),
        ('{"executor.memory": "sesame"}', "'executor.memory' is no property of Spark"),
        ('{"spark.authenticate.secret": "sesame"}', "'spark.authenticate.secret' is a secret"),
    ],
)
def test_unfit_properties_of_spark_are_not_shown(tallystick, monkeypatch, properties, said):
    """Whatever is wrong with them: they may hold a secret."""
    monkeypatch.setenv("TALLYSTICK_SPARK_PROPERTIES", properties)
    ran = tallystick("config")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "TALLYSTICK_SPARK_PROPERTIES: " in ran.err
    assert said in ran.err
    assert "sesame" not in ran.err


def test_properties_of_spark_come_from_file_or_environment(tallystick, monkeypatch):
    """A table of the file, or a JSON object."""
    FILE.write_text('[spark_properties]\n"spark.executor.memory" = "3g"\n')
    assert load().settings.spark_properties == {"spark.executor.memory": "3g"}
    monkeypatch.setenv("TALLYSTICK_SPARK_PROPERTIES", '{"spark.cores.max": "4"}')
    assert load().settings.spark_properties == {"spark.cores.max": "4"}
    assert "spark.cores.max" in tallystick("config").out


def test_a_bad_flag_is_misuse(tallystick):
    """A flag's unfit value is quoted under the flag's name."""
    ran = tallystick("replay", "x", "--disable", "no_such")
    assert (2, "") == (ran.code, ran.out)
    assert ran.err.endswith(
        "--disable: no rule has the name 'no_such'; tallystick rules lists them\n"
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("bootstrap_servers", "db1", "expected HOST:PORT, several with commas between them"),
        ("topic_prefix", "a b", "expected 1 to 200 letters, digits, dots, underscores and hyphens"),
        ("spark_memory", "2 GB", "expected a number and m or g, as 2g"),
        ("page_url", "db1", "expected a URL with http or https, without a user"),
    ],
)
def test_a_form_is_said_in_words(tallystick, monkeypatch, name, value, said):
    """Not as a pattern."""
    monkeypatch.setenv(f"TALLYSTICK_{name.upper()}", value)
    ran = tallystick("config")
    assert f"tallystick: TALLYSTICK_{name.upper()}: {said}, found {value!r}\n" == ran.err
