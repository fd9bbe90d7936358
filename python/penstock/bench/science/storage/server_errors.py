"""What a server's or a client library's error means, and what a user can do about it."""

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.model.problems import reason_of
from penstock.model.text import one_short_line

_CHECK = "check the storage and the credentials"
_NOT_REACHED = "check host and port of the URL, and whether the server runs"
_CREDENTIALS = {
    "http": "use https:// with BEARER_TOKEN or X509_USER_PROXY, or enter the host in ~/.netrc",
    "https": "check BEARER_TOKEN, BEARER_TOKEN_FILE, X509_USER_PROXY or ~/.netrc, and the permissions there",
    "s3": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do with the bucket",
    "s3s": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do with the bucket",
    "hdfs": "check HADOOP_USER_NAME, and the permissions of the directory",
    "webhdfs": "check HADOOP_USER_NAME, and the permissions of the directory",
    "root": "check X509_USER_PROXY, BEARER_TOKEN or KRB5CCNAME, and the permissions of the directory",
}
_NO_SPACE = 507
_OTHER_NAME, _OTHER_ADDRESS = 62, 64
"""X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH"""
# Of XRootD's protocol (kXR_NotAuthorized, kXR_NotFound, kXR_NoSpace, kXR_overQuota, kXR_AuthFailed), as
# statuses of HTTP; its library has no type for them.
_OF_XROOTD = {
    r"\[3010\]": 403,
    r"\[3011\]": 404,
    r"\[30(09|21)\]": _NO_SPACE,
    r"\[3030\]|Auth failed": 401,
}
_XROOTD_NOT_REACHED = re.compile(r"\[FATAL\] (Connection error|Invalid address|Socket timeout)")
_QUERY = re.compile(r"(?<=[^\s?])\?\S*=\S*")
"""of a URL, which may have a signature or a token"""
_OF_NETWORK = (
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EPIPE,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
)
_TIMEOUTS = ("Timeout", "TimeoutError", "ReadTimeoutError", "ConnectTimeoutError", "ServerTimeoutError")


class ServerAnsweredError(OSError):
    """An answer other than success; `status` is that of HTTP."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True)
class Explained:
    said: str
    remedy: str


def explained(error: Exception, scheme: str) -> Explained:
    """The first cause that has a known remedy; otherwise what the library says."""
    causes = list(_causes(error))
    for each in causes:
        if (found := _of_tls(each) or _of_network(each)) is not None:
            return found
    of_hdfs = next(filter(None, map(_said_by_hdfs, causes)), "")
    said = one_short_line(_QUERY.sub("", of_hdfs or str(error)).rstrip("\0 \n")) or type(error).__name__
    answered = next(filter(None, map(_answered, causes)), None)
    if answered is not None and str(answered) not in said:
        said = f"the server answered {answered}: {said}"
    status = answered or next(filter(None, map(_as_status, causes)), None)
    if status is not None:
        return Explained(said, _remedy_of(status, scheme))
    return Explained(said, _NOT_REACHED if _XROOTD_NOT_REACHED.search(said) else _CHECK)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was made from, the outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _of_tls(error: BaseException) -> Explained | None:
    """Errors of libraries may have these types, but not what they know."""
    if message := getattr(error, "verify_message", None):
        said = f"the certificate of the server is not accepted: {message}"
        if getattr(error, "verify_code", None) in (_OTHER_NAME, _OTHER_ADDRESS):
            return Explained(said, "use the host name that is in the certificate")
        return Explained(said, "set SSL_CERT_FILE or X509_CERT_DIR to the certificates of its authority")
    reason = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLError) and isinstance(reason, str):
        what = reason.replace("_", " ").lower()
        return Explained(f"no TLS with the server: {what}", "check that this port of the server has TLS")
    return None


def _of_network(error: BaseException) -> Explained | None:
    if isinstance(error, socket.gaierror):
        return Explained("the name of the host is unknown", "check the host of the URL")
    if isinstance(error, OSError) and error.errno in _OF_NETWORK:
        return Explained(reason_of(OSError(error.errno, os.strerror(error.errno))), _NOT_REACHED)
    if isinstance(error, TimeoutError) or type(error).__name__ in _TIMEOUTS:
        return Explained("the server did not answer in time", _NOT_REACHED)
    return None


def _answered(error: BaseException) -> int | None:
    """Status of HTTP: clients have it in different attributes."""
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):
        answer = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    found = getattr(answer, "status_code", answer) or getattr(error, "status", None)
    return found if isinstance(found, int) else None


def _said_by_hdfs(error: BaseException) -> str:
    """The reason that a server of HDFS gives in the body: its status is 403 for many of them."""
    answer = getattr(error, "response", None)
    if answer is None or not hasattr(answer, "iter_content"):  # of requests
        return ""
    try:
        return str(answer.json()["RemoteException"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""


def _as_status(error: BaseException) -> int | None:
    """Of an error without one: the status that means the same."""
    by_type: dict[type[BaseException], int] = {PermissionError: 403, FileNotFoundError: 404}
    of_xrootd = (status for words, status in _OF_XROOTD.items() if re.search(words, str(error)))
    return by_type.get(type(error)) or next(of_xrootd, None)


def _remedy_of(status: int, scheme: str) -> str:
    if status in (401, 403):
        return _CREDENTIALS[scheme]
    if status == 404:
        return "check the path of the URL"
    if status == _NO_SPACE:
        return "free space on the storage, or ask for more"
    if status >= 500:
        return "see the log of the server; repeat the command when it is well again"
    return _CHECK
