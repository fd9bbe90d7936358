"""Storage that is named by a URL, because it is spoken to by its protocol and has no mount point here."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.model.errors import UsageError
from penstock.model.problems import did_you_mean

_FORMS = {
    "root": "root://HOST[:PORT]//PATH",
    "roots": "roots://HOST[:PORT]//PATH",
    "nfs": "nfs://HOST/EXPORT/PATH",
    "http": "http://HOST[:PORT]/PATH",
    "https": "https://HOST[:PORT]/PATH",
    "s3": "s3://HOST:PORT/BUCKET, or s3://BUCKET with AWS_ENDPOINT_URL",
    "s3s": "s3s://HOST[:PORT]/BUCKET",
    "hdfs": "hdfs://HOST[:PORT]/PATH",
    "webhdfs": "webhdfs://HOST:PORT/PATH",
}
SCHEMES = tuple(_FORMS)
_BY_HTTP = ("http", "https", "s3", "s3s", "hdfs", "webhdfs")
_OF_URLS = ":/[]@!$&'()*+,;=%"
_WITH_USERS = ("root", "roots")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,15}")
"""name of an account: a token is longer, or has other characters"""
_CREDENTIALS = "~/.netrc, BEARER_TOKEN, X509_USER_PROXY and AWS_SECRET_ACCESS_KEY are read"
_URL = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NO_NAMES = (".", "..")


def _require_no_secret(text: str, scheme: str) -> None:
    """Raises UsageError for a password, and for what may be a token in the place of a user's name."""
    userinfo, at, host = text.partition("://")[2].partition("/")[0].rpartition("@")
    if not at or (scheme in _WITH_USERS and _USER.fullmatch(userinfo)):
        return
    host = re.split("[?#]", host, maxsplit=1)[0]
    what = "password" if ":" in unquote(userinfo) else "user name or a token"
    raise UsageError(
        f"the URL of {host} has a {what}, which would stand in every document",
        f"leave it out; {_CREDENTIALS}",
    )


def _require_no_more_than_a_path(text: str, scheme: str) -> None:
    """Raises UsageError for parts of a URL that hide its end from the server, or hold secrets.

    A client sends nothing behind "#": names of files that follow it would all mean the directory before it.
    """
    _require_no_secret(text, scheme)
    before = re.split("[?#]", text, maxsplit=1)[0]
    if "#" in text:
        raise UsageError(f'the URL {before} is followed by "#"', 'leave it out; in a name, write "%23"')
    if "?" in text and scheme != "nfs":
        raise UsageError(
            f'the URL {before} is followed by "?": only nfs:// has options', f"leave them out; {_CREDENTIALS}"
        )


def _is_directory(text: str, scheme: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    names = parts.path.split("/")
    return has_host and not any(each in names for each in _NO_NAMES) and _has_path(parts, scheme)


def _has_path(parts: SplitResult, scheme: str) -> bool:
    """Whether it names as much as the protocol requires: an absolute path, an export, a bucket."""
    if scheme in ("root", "roots"):
        return parts.path.startswith("//")
    if scheme in ("nfs", "s3s") or (scheme == "s3" and parts.port is not None):
        return bool(parts.path.strip("/"))
    return True


@dataclass(frozen=True)
class StorageUrl:
    """A directory on a server. Credentials come from the environment: the text stands in documents."""

    text: str
    inside: tuple[str, ...] = ()
    """command in front of a program, where the server is reached only so; empty: from here"""
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """of the environment of that program"""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises UsageError with the form that the URL should have."""
        found = _URL.match(text)
        scheme = found["scheme"] if found is not None else ""
        if scheme not in _FORMS:
            raise UsageError(
                f'the protocol "{scheme}" is unknown{did_you_mean(scheme, SCHEMES)}',
                f"use one of {', '.join(f'{each}://' for each in SCHEMES)}",
            )
        _require_no_more_than_a_path(text, scheme)
        if not text.isprintable() or " " in text or not _is_directory(text, scheme):
            raise UsageError(f"{text} is not a URL of a directory", f"write {_FORMS[scheme]}")
        # Signatures of requests are those of encoded text; the other protocols send names as they are.
        return cls(quote(text, safe=_OF_URLS) if scheme in _BY_HTTP else text)

    def __str__(self) -> str:
        return self.text

    @property
    def scheme(self) -> str:
        return self.text.partition("://")[0]

    def __truediv__(self, name: str) -> "StorageUrl":
        """The directory of this name in it. Raises UsageError for a name that a URL cannot hold as it is."""
        if not _NAME.fullmatch(name) or name in _NO_NAMES:
            raise UsageError(
                f'"{name}" cannot be the name of a directory in {self}', "use letters, digits, ., _ and -"
            )
        path, mark, options = self.text.partition("?")
        return replace(self, text=f"{path.rstrip('/')}/{name}{mark}{options}")

    @property
    def parent(self) -> "StorageUrl":
        path, mark, options = self.text.partition("?")
        return replace(self, text=f"{path.rpartition('/')[0]}{mark}{options}")

    @property
    def name(self) -> str:
        return self.text.partition("?")[0].rpartition("/")[2]


Place = Path | StorageUrl
"""Where a run stores: a directory of a mounted file system, or one on a server."""


def mounted(place: Place, what: str) -> Path:
    """Raises UsageError for a URL: `what` needs a directory of a mounted file system."""
    if isinstance(place, StorageUrl):
        raise UsageError(f"{what} requires a mounted file system, and {place} is a URL", "name a directory")
    return place


def names_url(path: Path) -> bool:
    """Whether a path, in which two slashes are one, was written as a URL."""
    return path.parts[:1] in [(f"{each}:",) for each in SCHEMES]


def place_of(text: str) -> Place:
    """A URL has "://" in it; anything else is a path. Raises UsageError for a URL that cannot be used."""
    return StorageUrl.parse(text) if _URL.match(text) else Path(text)
