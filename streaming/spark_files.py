"""Spark's own files in a checkpoint location, as the driver reads them: in a directory or at a URL.

Names are relative to the location, with slashes. At a URL they are read by Hadoop's ``FileSystem``
in the session's JVM, as Spark reads them, so any that Spark can write to will do.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tallystick.streaming.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

REASON_MAX = 200


class SparkFiles(Protocol):
    """What is read of them."""

    def location(self, name: str) -> str:
        """Where something is, as Spark takes it."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder, in no order; none where there is no such folder."""
        ...

    def read(self, name: str) -> bytes:
        """A whole file.

        Raises:
            FileNotFoundError: There is none.
        """
        ...


@final
class LocalFiles:
    """In a directory; can be read before Spark has started.

    Args:
        root: The directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def location(self, name: str) -> str:
        """Its path."""
        return str(self._root / name)

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder."""
        return [path.name for path in (self._root / folder).glob("*")]

    def read(self, name: str) -> bytes:
        """A whole file."""
        return (self._root / name).read_bytes()


@final
class HadoopFiles:
    """At a URL, by the file system that Spark has for it.

    Args:
        spark: The session.
        root: The URL, without a slash at its end.

    Raises:
        CheckpointError: There is no file system for the URL; this and what else the file system
            says is raised by the methods, too, but for what they name.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._root = root
        # Spark has no public way to its JVM.
        self._jvm: Any = spark._jvm  # noqa: SLF001
        configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        with self._one_sentence(root):
            self._system = self._path(root).getFileSystem(configuration)

    def location(self, name: str) -> str:
        """Its URL."""
        return f"{self._root}/{name}"

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder."""
        url = self.location(folder)
        try:
            with self._one_sentence(url):
                found = self._system.listStatus(self._path(url))
                return [status.getPath().getName() for status in found]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """A whole file."""
        url = self.location(name)
        with self._one_sentence(url):
            stream = self._system.open(self._path(url))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create(self, name: str, data: bytes) -> None:
        """Write a file where there is none.

        Raises:
            FileExistsError: There is one, whoever wrote it.
        """
        url = self.location(name)
        with self._one_sentence(url):
            stream = self._system.create(self._path(url), False)  # noqa: FBT003  overwrite, in Java
            try:
                stream.write(data)
            finally:
                stream.close()

    def _path(self, url: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(url)

    @staticmethod
    @contextmanager
    def _one_sentence(url: str) -> Iterator[None]:
        """Exceptions of Java as Python's, or as one sentence about a URL."""
        try:
            yield
        except Py4JJavaError as error:
            java: Any = error.java_exception
            name = java.getClass().getSimpleName()
            if name == "FileNotFoundException":
                raise FileNotFoundError(url) from error
            if name in ("FileAlreadyExistsException", "AlreadyBeingCreatedException"):
                raise FileExistsError(url) from error
            raise _cannot_be_used(url, name, str(java.getMessage())) from error
        except PySparkException as error:  # which pyspark makes of some of Java's
            raise _cannot_be_used(url, type(error).__name__, str(error)) from error


def _cannot_be_used(url: str, name: str, message: str) -> CheckpointError:
    # Hadoop adds where its explanation is.
    reason = message.partition("\n")[0].partition("; For more details")[0][:REASON_MAX]
    return CheckpointError(
        f"{url!r} cannot be used for Spark's checkpoints: {name}: {reason}. To fix: see whether its"
        f" file system answers, then start the job again; or set spark_checkpoint to another URL."
    )
