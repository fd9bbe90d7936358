"""Requests over HTTP in the network of a node."""

from pathlib import Path

from penstock.lab.node import Node

NO_ANSWER = "000"


def request(node: Node, url: str, *more: str | Path) -> tuple[str, str]:
    """Returns the status, or NO_ANSWER, and the text; `more` are further options of curl(1)."""
    answer = node.run("curl", "--silent", "--write-out", " %{http_code}", *more, url, check=False)
    text, _, status = answer.rpartition(" ")
    return status, text
