"""Exit codes of commands that answer whether a rate is sustained."""

from penstock.model.bench.rehearsals import RehearsalAnswer
from penstock.model.bench.runs import Answer
from penstock.model.errors import ExitCode

_OF_ANSWERS = {
    "yes": ExitCode.FINE,
    "likely yes": ExitCode.FINE,
    "likely no": ExitCode.FAILED,
    "no": ExitCode.FAILED,
    "cannot tell": ExitCode.CANNOT_TELL,
    "invalid": ExitCode.INVALID,
}


def exit_code_of(answer: Answer | RehearsalAnswer, problem: str | None) -> ExitCode:
    """Returns the exit code of a verdict or a rehearsal.

    `problem`: why it ended early, by an interruption or a failed step. Only a no stands then: what was lost
    stays lost, whereas the rest of the measurement could have changed any other answer.
    """
    code = _OF_ANSWERS[answer]
    return code if problem is None or code == ExitCode.FAILED else ExitCode.UNANSWERED
