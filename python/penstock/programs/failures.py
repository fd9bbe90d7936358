"""Puts failures of the native programs that users can act on into one sentence with a remedy."""

import re

_REJECTED = re.compile(
    r"(?:tcp://\S+: )?reply of (?P<address>tcp://\S+): the receiver rejects the (?P<what>connection|series):"
    r" [a-z_]+: (?:series (?P<name>\"[^\"]*\"): )?(?P<why>.*)",
    re.DOTALL,
)
_IN_USE = re.compile(r"listen on \S+:(?P<port>[0-9]+): another program listens there.*")
_PRIVILEGED = re.compile(r"listen on \S+:(?P<port>[0-9]+): permission denied.*")
_TOKEN_OPTIONS = "--token-file FILE, or the variable PENSTOCK_TOKEN"
_TOKENS = {
    "hello: a token is required": ("the recorder requires a token", f"give {_TOKEN_OPTIONS}"),
    "hello: wrong token": ("the recorder does not accept the token", f"check {_TOKEN_OPTIONS}"),
}
_PRIVILEGED_BELOW = 1024


def explained(failure: str) -> tuple[str, str]:
    """Returns the message and the remedy; the failure itself and "" if it is not a known one."""
    if (found := _REJECTED.search(failure)) is not None:
        before = failure[: found.start()]
        if (token := _TOKENS.get(found["why"])) is not None:
            return f"{before}{found['address']}: {token[0]}", token[1]
        what = f"{found['what']} {found['name']}" if found["name"] else found["what"]
        return f"{before}{found['address']}: the recorder rejects the {what}: {found['why']}", ""
    if (found := _IN_USE.search(failure)) is not None:
        return (
            f"{failure[: found.start()]}port {found['port']} is in use, perhaps by another `penstock record`",
            "stop it, or choose another port with --listen or --metrics",
        )
    if (found := _PRIVILEGED.search(failure)) is not None and int(found["port"]) < _PRIVILEGED_BELOW:
        return (
            f"{failure[: found.start()]}you have no permission to listen on port {found['port']}",
            "ports below 1024 require root: choose another port",
        )
    return failure, ""
