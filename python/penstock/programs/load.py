"""Runs the load generator."""

from collections.abc import Callable

from pydantic import ValidationError

from penstock.model.bench.load import LoadDocument, LoadPlan, RemoteBackend
from penstock.model.bench.made import Made
from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import LoadMade, LoadPartial, LoadProgress, LoadResult
from penstock.model.problems import place_of, words_of
from penstock.programs.process import PLAIN_START, LogLine, Program, Start, forwarding_signals
from penstock.programs.ranks import Ranks

# After its last word. Threads that hang in the storage keep a process from ending, whatever it does.
_ENDS_WITHIN_S = 10.0


def _wait_for(program: Program, result: LoadResult | None) -> None:
    try:
        code = program.wait(None if result is None else _ENDS_WITHIN_S)
    except TimeoutError:
        program.leave()
        return
    program.require_success(code, (0,) if result is None else (0, ExitCode.FAILED))


def _wait_for_job(program: Program, result: LoadResult | None) -> None:
    """The launcher's exit code says nothing that the result does not: a rank that is missing stands in it."""
    try:
        code = program.wait(_ENDS_WITHIN_S)
    except TimeoutError:
        if result is None:
            raise PenstockError(
                "the ranks of penstock-load have ended, but their launcher is still running", "run again"
            ) from None
        program.leave()
        return
    if result is None:
        program.require_success(
            code, remedy_of_death="a rank died, and the others could not report their measurements"
        )


def program_of(plan: LoadPlan) -> str:
    """The one that has the plan's back end."""
    return "penstock-load-remote" if isinstance(plan.backend, RemoteBackend) else "penstock-load"


def load(
    plan: LoadPlan,
    on_progress: Callable[[LoadProgress], None],
    on_log: LogLine | None = None,
    ranks: Ranks | None = None,
    start: Start = PLAIN_START,
    on_made: Callable[[Made | None], None] = lambda _: None,
) -> LoadDocument:
    """Blocks until the run is over; SIGINT and SIGTERM end it early, with what was measured by then.

    `on_made` is called with what the run created, also if it measured nothing; not if the program died.

    What went wrong after the start stands in the document; a PenstockError says why no measurement.
    """
    result: LoadResult | None = None
    with (
        Program(program_of(plan), plan, on_log=on_log, ranks=ranks, start=start) as program,
        forwarding_signals(program),
    ):
        for event in program.events():
            if isinstance(event, LoadResult):
                result = event  # a partial one goes where the whole one comes
                if not isinstance(event, LoadPartial):
                    break
            if isinstance(event, LoadMade):
                on_made(event.made)
            if isinstance(event, LoadProgress):
                on_progress(event)
        if ranks is None:
            _wait_for(program, result)
        else:
            _wait_for_job(program, result)
    if result is None:
        raise PenstockError("penstock-load ended without a result", "see its log above")
    try:
        return LoadDocument.model_validate(result.document)
    except ValidationError as error:
        first = error.errors()[0]
        raise PenstockError(
            "penstock-load wrote a document that cannot be read:"
            f" {place_of(first)}: {words_of(first, of_json=True)}",
            "the program and the package differ in version: build both again",
        ) from error
