"""What moving bytes costs, for people."""

from penstock.model.runs import ProcessorCost


def cost_rows(cost: ProcessorCost) -> dict[str, str]:
    machine = f"{_text(cost.user_s_per_gb)} user, {_text(cost.system_s_per_gb)} system"
    steal = f", {_text(cost.steal_s_per_gb)} stolen" if cost.steal_s_per_gb else ""
    own = f"{_text(cost.own_user_s_per_gb)} user, {_text(cost.own_system_s_per_gb)} system"
    return {"processors, s a GB": f"machine {machine}{steal}; generator {own}"}


def _text(seconds: float) -> str:
    return f"{seconds:.3g}"
