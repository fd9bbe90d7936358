"""Processor time per byte, for people."""

from penstock.model.bench.runs import ProcessorCost, Profile
from penstock.model.units import human_number

_SYMBOLS_SHOWN = 5


def cost_rows(cost: ProcessorCost) -> dict[str, str]:
    machine = f"{_text(cost.user_s_per_gb)} user, {_text(cost.system_s_per_gb)} system"
    steal = f", {_text(cost.steal_s_per_gb)} stolen" if cost.steal_s_per_gb else ""
    own = f"{_text(cost.own_user_s_per_gb)} user, {_text(cost.own_system_s_per_gb)} system"
    return {"processor time": f"machine {machine}{steal}; generator {own}"}


def _text(seconds: float) -> str:
    return f"{human_number(seconds)} s/GB"


def profile_rows(profile: Profile, cost: ProcessorCost | None) -> dict[str, str]:
    """Returns shares of the busy time, with the time per GB if it is known."""
    rows = {"processors idle": f"{100 * profile.idle_share:.1f} %"}
    for name, share in profile.shares.items():
        each = f", {_text(share * cost.machine_s_per_gb)}" if cost else ""
        rows[f"time in {name}"] = f"{100 * share:.1f} %{each}"
    top = ", ".join(f"{each.symbol} {100 * each.share:.1f} %" for each in profile.symbols[:_SYMBOLS_SHOWN])
    return rows | {"most time in": top}
