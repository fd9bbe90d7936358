"""The settings of a rehearsed recorder in words, from the job in the document."""

from collections.abc import Mapping
from typing import Any

from penstock.model.text import counted
from penstock.model.units import human_size

DURABILITY_WORDS = {
    "none": "no syncs",
    "interval": "synced at an interval",
    "segment": "synced with each segment",
}


def codec_words(codec: Mapping[str, Any]) -> str:
    """Returns "bszstd, level 9", or the names of filters; empty if it is not known."""
    if filters := codec.get("filters"):
        return ", ".join(str(each.get("name") or each.get("id")) for each in filters)
    level = f", level {codec['level']}" if codec.get("level") else ""
    return f"{codec.get('encoding', '')}{level}"


def recorder_rows(configuration: Mapping[str, Any]) -> dict[str, str]:
    """Returns codec, compression threads, pool and durability; without those that are not known."""
    threads, pool = configuration.get("threads"), configuration.get("pool_bytes")
    store = configuration.get("store") or {}
    durability = str(store.get("durability", ""))
    rows = {
        "codec": codec_words(configuration.get("codec") or {}),
        "compression threads": "" if threads is None else str(threads),
        "pool": "" if pool is None else human_size(int(pool)),
        "durability": f"{durability} ({DURABILITY_WORDS[durability]})"
        if durability in DURABILITY_WORDS
        else durability,
    }
    return {name: text for name, text in rows.items() if text}


def recorder_text(configuration: Mapping[str, Any]) -> str:
    """Returns the short form: "bszstd, level 9, 4 threads, pool 1 GiB"; empty if nothing is known."""
    rows = recorder_rows(configuration)
    parts = [rows.get("codec", "")]
    if "compression threads" in rows:
        parts.append(counted(int(configuration["threads"]), "thread"))
    if "pool" in rows:
        parts.append(f"pool {rows['pool']}")
    if not rows.get("durability", "none").startswith("none"):
        parts.append(f"durability {(configuration.get('store') or {})['durability']}")
    return ", ".join(part for part in parts if part)
