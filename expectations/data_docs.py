"""The Great Expectations context: results and Data Docs on disk, everything else in memory.

Great Expectations rebuilds its index over all stored results: the store keeps the last runs only.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tallystick.expectations._later import imported_when_used

# The release we use sends nothing; older ones of the same major version did.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

# For a distance of distributions and its chart, and for Spark's vectors: no rule asks for them.
with imported_when_used("altair", "scipy.sparse", "scipy.stats"):
    import great_expectations as gx
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)

_SITE = "tallystick"


class DataDocs:
    """The context and its stored runs.

    Args:
        directory: Where results and pages go; None keeps all in memory.
        keep_runs: How many runs to keep.
    """

    def __init__(self, directory: Path | None, keep_runs: int) -> None:
        if keep_runs < 1:
            raise ValueError(f"expected to keep at least 1 run, found {keep_runs!r}")
        self._site = None if directory is None else directory.resolve() / "site"
        self._results = None if directory is None else directory.resolve() / "results"
        self._keep_runs = keep_runs
        self.context = gx.get_context(mode="ephemeral", project_config=_config(directory))

    def prune(self) -> None:
        """Forget all but the last runs."""
        store: Any = self.context.validation_results_store
        keys = sorted(store.list_keys(), key=lambda key: (key.run_id.run_time, str(key)))
        for key in keys[: -self._keep_runs]:
            store.remove_key(key)
        if self._results is not None:
            # The store forgets files and leaves their directories, and walks them all to list.
            for folder in sorted(self._results.glob("*/**/"), reverse=True):
                if not any(folder.iterdir()):
                    folder.rmdir()

    def build(self) -> Path | None:
        """Write the pages of the kept runs; returns their index, None without a directory."""
        if self._site is None:
            return None
        self.prune()
        # Pages of forgotten runs would stay, and the index would not know them.
        shutil.rmtree(self._site / "validations", ignore_errors=True)
        self.context.build_data_docs()
        return self._site / "index.html"


def _config(directory: Path | None) -> DataContextConfig:
    defaults = InMemoryStoreBackendDefaults()
    sites: dict[str, Any] = {}
    if directory is not None:
        # A path relative to the context would be relative to a directory that is not there.
        root = directory.resolve()
        results = defaults.stores[defaults.validation_results_store_name]
        results["store_backend"] = _on_disk(root / "results")
        sites[_SITE] = {
            "class_name": "SiteBuilder",
            "store_backend": _on_disk(root / "site"),
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "show_how_to_buttons": False,
        }
    return DataContextConfig(
        store_backend_defaults=defaults,
        data_docs_sites=sites,
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


def _on_disk(directory: Path) -> dict[str, Any]:
    directory.mkdir(parents=True, exist_ok=True)
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(directory)}
