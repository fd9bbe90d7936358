"""Commands of a user on a client of a laboratory."""

import os
import subprocess
from collections.abc import Sequence

from penstock.lab.ground import GROUND
from penstock.lab.place import place_of
from penstock.lab.request import LabState
from penstock.model.errors import UsageError
from penstock.model.text import counted
from penstock.programs.signals import signal_of


def run_on(state: LabState, client: int, command: Sequence[str]) -> int:
    """Runs a command with a client's network, in its control group; returns the exit code, as shells do.

    The command is killed with the laboratory. Raises UsageError if the client does not exist.
    """
    names = [node.name for node in state.nodes if node.name.startswith("client")]
    if client > len(names):
        raise UsageError(
            f"laboratory {state.name} has no client {client}", f"it has {counted(len(names), 'client')}"
        )
    node = next(each for each in state.nodes if each.name == names[client - 1])
    variables = {
        "PENSTOCK_LAB_NAME": state.name,
        "PENSTOCK_LAB_MOUNT": node.mount,
        "PENSTOCK_LAB_URL": state.url,
        **state.environment,
    }
    inside = GROUND.at_client(place_of(state.name), node.name)
    process = subprocess.Popen([*inside, *command], env={**os.environ, **variables})
    try:
        code = process.wait()
    except KeyboardInterrupt as stop:
        # It had Ctrl-C from the terminal as well; SIGTERM came to this process alone.
        if signal_of(stop) == "SIGTERM":
            process.terminate()
        code = process.wait()
    return code if code >= 0 else 128 - code
