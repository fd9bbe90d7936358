"""What moving bytes costs in processor time."""

from typing import Any

from bench_documents import frames_document, machine

from penstock.bench.statistics.cost import processor_cost
from penstock.model.bench.load import LoadDocument


def document_with(own: dict[str, float], **spent: float) -> LoadDocument:
    counters: dict[str, Any] = machine(**spent)
    counters["after"] = counters["after"] | {"own": own}
    return frames_document(due=2000, machine=counters)


def test_processor_time_is_told_for_each_gigabyte() -> None:
    """2000 frames of 1 MB are 2 GB."""
    document = document_with(
        {"user_s": 0.5, "system_s": 3.0}, user=4.0, nice=1.0, system=6.0, softirq=2.0, steal=1.0, iowait=9.0
    )
    cost = processor_cost(document)
    assert cost is not None
    assert cost.moved_bytes == 2 * 10**9
    assert (cost.user_s_per_gb, cost.system_s_per_gb, cost.steal_s_per_gb) == (2.5, 4.0, 0.5)
    assert (cost.own_user_s_per_gb, cost.own_system_s_per_gb) == (0.25, 1.5)
    assert cost.machine_s_per_gb == 6.5
    silent = document.model_copy(update={"machine": {"before": {"processor_seconds": None}, "after": {}}})
    assert processor_cost(silent) is None
