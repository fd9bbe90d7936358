"""Servers that a schedule lets fail are healed, whatever happens to the schedule."""

import threading
from typing import Any

import pytest

from penstock.bench.degraded.schedule import FaultSchedule
from penstock.model.bench.fault_schedules import Fault


def test_servers_are_healed_though_nobody_reads_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    failed = threading.Event()

    def ask(_place: object, what: str, **_: Any) -> dict[str, Any]:
        asked.append(what)
        failed.set()
        return {"has_healed": True}

    def say(_text: str) -> None:
        raise BrokenPipeError("nobody reads")

    monkeypatch.setattr("penstock.bench.degraded.schedule.ask", ask)
    schedule = FaultSchedule("any", [Fault(at_s=0, server=1, fault="fail")], say)
    with schedule.never_left_failed():
        schedule.begin()
        assert failed.wait(30)
    assert asked[:2] == ["fail", "heal"]
    assert schedule.problem == "BrokenPipeError: nobody reads"
