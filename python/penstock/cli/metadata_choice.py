"""The options of `penstock bench metadata` as a workload, for the command and for `--beside`."""

from collections.abc import Mapping
from typing import Any

from penstock.bench.metadata import metadata_workload
from penstock.cli.common import size_option
from penstock.model.load import MetadataWorkload

_SAME = ("threads", "items", "depth", "branch", "shared", "shift", "iterations", "rename", "remove")


def chosen_metadata(options: Mapping[str, Any]) -> MetadataWorkload:
    """`options` by the names of the command's parameters. A UsageError names what is not possible."""
    only = options["only"]
    return metadata_workload(
        options["ranks"] or 1,
        **{name: options[name] for name in _SAME},
        folders=only != "files",
        files=only != "folders",
        file_bytes=size_option(options["size"], "--size") if only != "folders" else 0,
    )
