"""What makes a measurement of the network sound.

The clocks of the two ends are never compared: each end times what it receives from the agreed start to the
last byte on its own clock, and round trips begin and end at the same one. Whether they agree is not checked.
"""

from collections.abc import Iterator

from penstock.bench.judge.checks import check_complete, machine_checks
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Bias, Check, CheckOutcome, NetworkFigures, TransferFigures
from penstock.model.units import human_percent, human_seconds

LONG_ENOUGH_S, FAR_TOO_SHORT_S = 5.0, 0.5
BUSY_SHARE = 0.9
SENT_AGAIN_SHARE = 0.001
ROUND_TRIPS_MIN = 1000


def network_checks(document: LoadDocument, figures: NetworkFigures) -> list[Check]:
    transfers = [check for transfer in figures.transfers for check in _of_transfer(transfer)]
    seconds = sum(phase.client.seconds for phase in (document.network.phases if document.network else []))
    return [
        check_complete(document),
        *_check_round_trips(figures),
        *transfers,
        *machine_checks(document, seconds),
    ]


def _warned_unless(
    good: bool, name: str, expected: str, actual: str, advice: str, bias: Bias = "worse"
) -> Check:
    outcome: CheckOutcome = "ok" if good else "warning"
    return Check(
        name=name,
        outcome=outcome,
        expected=expected,
        actual=actual,
        bias=bias,
        advice="" if good else advice,
    )


def _check_round_trips(figures: NetworkFigures) -> Iterator[Check]:
    if not figures.round_trips:
        return
    fewest = min(figures.round_trips, key=lambda trips: trips.count)
    yield _warned_unless(
        fewest.count >= ROUND_TRIPS_MIN,
        "enough round trips",
        f"at least {ROUND_TRIPS_MIN} of each size, for the 99.9th percentile",
        f"{fewest.count} of {fewest.message_bytes} bytes",
        "increase --latency-seconds",
        "either",
    )


def _of_transfer(transfer: TransferFigures) -> Iterator[Check]:
    yield _check_long_enough(transfer)
    busiest = max(transfer.sender_busy_share, transfer.receiver_busy_share)
    end = "sender" if transfer.sender_busy_share >= transfer.receiver_busy_share else "receiver"
    yield _warned_unless(
        busiest <= BUSY_SHARE,
        f"network-bound, not processor-bound ({transfer.name})",
        f"no thread is busy more than {100 * BUSY_SHARE:.0f} % of the time",
        f"a thread of the {end}: {100 * busiest:.0f} %",
        "increase --streams on machines with free processors, or choose other --cpus",
    )
    yield _warned_unless(
        transfer.sent_again_share <= SENT_AGAIN_SHARE,
        f"few retransmissions ({transfer.name})",
        f"at most {human_percent(SENT_AGAIN_SHARE)} of the bytes",
        human_percent(transfer.sent_again_share, 2),
        "check for other users of the link, full queues in switches and bad cables: packets are lost",
    )


def _check_long_enough(transfer: TransferFigures) -> Check:
    seconds = transfer.seconds
    outcome: CheckOutcome = (
        "failed" if seconds < FAR_TOO_SHORT_S else "warning" if seconds < LONG_ENOUGH_S else "ok"
    )
    return Check(
        name=f"long enough ({transfer.name})",
        outcome=outcome,
        expected=f"at least {human_seconds(LONG_ENOUGH_S)}",
        actual=human_seconds(seconds),
        bias="either",
        advice="" if outcome == "ok" else "increase --seconds: TCP needs time to reach the rate of a link",
    )
