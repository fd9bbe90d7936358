"""Authorities that certificates of servers with TLS are checked against."""

import os
import ssl
from pathlib import Path

from penstock.model.errors import UsageError

_VARIABLES = ("X509_CERT_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""of the grid's clients, as the load generator takes it, and of OpenSSL; the first one that is set counts"""
_WITH_TLS = ("https", "s3s")


def authorities() -> Path | None:
    """A file of certificates, or a directory of hashed ones; None: there is none, not even the system's.

    The clients' libraries disagree about where they look by default: all are given this.
    """
    own = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), None)
    default = ssl.get_default_verify_paths()
    found = own or default.cafile or default.capath
    return Path(found) if found else None


def trusting_context() -> ssl.SSLContext:
    found = authorities()
    if found is None:
        return ssl.create_default_context()
    is_folder = found.is_dir()
    return ssl.create_default_context(
        cafile=None if is_folder else found, capath=found if is_folder else None
    )


def require_authorities(scheme: str) -> None:
    """Raises UsageError for a variable that names nothing."""
    for name in _VARIABLES if scheme in _WITH_TLS else ():
        own = os.environ.get(name)
        if own and not Path(own).exists():
            raise UsageError(
                f"{name}: {own} does not exist", "set it to the certificates of your authorities"
            )
