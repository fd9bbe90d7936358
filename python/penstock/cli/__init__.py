"""The `penstock` command. Reads options, calls the package, shows what comes back."""

from penstock.cli.application import application, main

__all__ = ["application", "main"]
