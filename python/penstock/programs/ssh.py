"""Commands on another machine, over ssh without a password."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping

from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import one_short_line
from penstock.model.units import human_seconds

VARIABLE = "PENSTOCK_SSH"
UNREACHABLE = 255
"""exit code of ssh itself"""
# Neither a password nor the question whether a host is known: nobody may be there to answer.
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")
_ASK_S = 30.0
_HOST = re.compile(r"[A-Za-z0-9._%@:\[\]-]+")

# What ssh prints: the problem, and the remedy; {host} as given, {name} without the user, {ssh} the command.
# Causes come first: of a connection through a jump host, the last line only says that it ended.
_FAILURES = (
    (
        ("Could not resolve hostname",),
        "the name cannot be resolved",
        "check the name with `getent hosts {name}`, or give its address",
    ),
    (
        ("Connection refused",),
        "the host refuses connections over ssh",
        "start the ssh server on {name}, or set its port in ~/.ssh/config (`Port`)",
    ),
    (
        ("timed out", "No route to host", "Network is unreachable"),
        "the host cannot be reached",
        "check with `ping {name}` that it is on, and that no firewall is in between",
    ),
    (
        ("Permission denied", "Too many authentication failures"),
        "the host does not accept your key",
        "`ssh-copy-id {host}` installs it there, so that no password is needed; another key is set in"
        " ~/.ssh/config (`IdentityFile`)",
    ),
    (
        ("Unable to negotiate",),
        "the host offers no algorithm that this ssh accepts",
        "accept one that it offers, in ~/.ssh/config: `HostKeyAlgorithms`, `KexAlgorithms` or `Ciphers`",
    ),
    (
        ("Host key verification failed", "host key"),
        "its host key is not known, or has changed",
        "run `{ssh} {host} true` once and compare the key",
    ),
    (
        ("not responding", "closed by remote host", "Broken pipe", "Connection reset"),
        "the connection was lost",
        "make `{ssh} {host} true` work, then repeat the command",
    ),
)


def shown_command(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the ssh command as the user gave it in PENSTOCK_SSH; default: ssh."""
    return environment.get(VARIABLE, "").strip() or "ssh"


def ssh_command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the command that the host and the remote command follow. Options of PENSTOCK_SSH have priority.

    Raises UsageError if PENSTOCK_SSH cannot be split into words.
    """
    try:
        words = shlex.split(shown_command(environment))
    except ValueError as error:
        raise UsageError(
            f"{VARIABLE}={environment[VARIABLE]}: {one_short_line(str(error))}",
            f"write the command as in a shell, for example {VARIABLE}='ssh -p 2222'",
        ) from error
    return [*words, *_OPTIONS]


def of_any_shell(script: str) -> str:
    """Returns the remote command that runs a POSIX shell script, whichever login shell the user has there."""
    return f"exec sh -c {shlex.quote(script)}"


def ask(host: str, script: str) -> "subprocess.CompletedProcess[str]":
    """Returns how a short POSIX shell script on `host` ended.

    Raises PenstockError if the host cannot be reached; UsageError if it is not the name of a host, or ssh
    cannot be started here.
    """
    _require_host(host)
    command = ssh_command()
    try:
        done = subprocess.run(
            [*command, host, of_any_shell(script)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except OSError as error:
        raise _not_started(command[0], error) from error
    except subprocess.TimeoutExpired as error:
        raise PenstockError(
            f"--from {host}: no answer within {human_seconds(_ASK_S)}",
            f"check with `{shown_command()} {host} true`",
        ) from error
    if done.returncode == UNREACHABLE:
        raise unreachable(host, done.stderr.splitlines())
    return done


def _require_host(host: str) -> None:
    """One that begins with "-" would be an option of ssh."""
    if not _HOST.fullmatch(host) or host.startswith("-"):
        raise UsageError(f'--from "{host}" is not a host', "write HOST or USER@HOST, as for ssh")


def _not_started(program: str, error: OSError) -> UsageError:
    if VARIABLE in os.environ:
        return UsageError(
            f"{VARIABLE}: {program} cannot be started: {error.strerror}", "correct it, or unset the variable"
        )
    if isinstance(error, FileNotFoundError):
        return UsageError(
            "--from requires ssh, which is not installed", "install it: `apt-get install openssh-client`"
        )
    return UsageError(f"--from: ssh cannot be started: {error.strerror}", "check with `ssh -V`")


def network_name(host: str) -> str:
    """Returns the name or address under which the network knows `host`, which may be an alias of
    ~/.ssh/config. Raises UsageError if it is not the name of a host.
    """
    _require_host(host)
    try:
        done = subprocess.run(
            [*ssh_command(), "-G", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # connecting will say why
        done = None
    lines = [] if done is None or done.returncode else done.stdout.splitlines()
    found = next((line.split()[1] for line in lines if line.startswith("hostname ")), "")
    return found or host.rpartition("@")[2]


def unreachable(host: str, lines: Iterable[str]) -> PenstockError:
    """Returns the error of an ssh that failed and printed these lines."""
    printed = [one_short_line(line) for line in lines if line.strip()] or ["no reason given"]
    ssh, name = shown_command(), host.rpartition("@")[2]
    for signs, problem, remedy in _FAILURES:
        for line in reversed(printed):
            if any(sign in line for sign in signs):
                return PenstockError(
                    f"--from {host}: {problem}: {line}", remedy.format(host=host, name=name, ssh=ssh)
                )
    return PenstockError(f"--from {host}: ssh failed: {printed[-1]}", f"make `{ssh} {host} true` work")
