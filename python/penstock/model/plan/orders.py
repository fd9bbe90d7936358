"""Detectors as arguments of `penstock plan` name them."""

import re
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from penstock.model.errors import UsageError
from penstock.model.problems import words_of
from penstock.model.units import parse_share

_ORDER = re.compile(r"(?:(?P<count>[0-9]{1,6})x)?(?P<name>[^@]+)(?:@(?P<rate>[^@]+))?")
_COUNT_MAX = 10**5
_RATE_MAX = 1e7


def _share(value: object) -> object:
    return parse_share(value) if isinstance(value, str) else value


class Order(BaseModel):
    """A number of detectors of one name: "2xeiger2-16m@100,ratio=8,duty=0.3"."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    name: str
    count: int = Field(1, ge=1, le=_COUNT_MAX)
    rate_hz: float | None = Field(None, gt=0, le=_RATE_MAX, allow_inf_nan=False)
    ratio: float | None = Field(None, ge=1, le=1e6, allow_inf_nan=False)
    duty: Annotated[float | None, BeforeValidator(_share)] = Field(None, gt=0, le=1, allow_inf_nan=False)

    @property
    def text(self) -> str:
        """Returns it as it is parsed."""
        count = "" if self.count == 1 else f"{self.count}x"
        rate = "" if self.rate_hz is None else f"@{self.rate_hz:g}"
        ratio = "" if self.ratio is None else f",ratio={self.ratio:g}"
        duty = "" if self.duty is None else f",duty={self.duty:g}"
        return f"{count}{self.name}{rate}{ratio}{duty}"

    @classmethod
    def parse(cls, text: str) -> Self:
        detector, *settings = (part.strip() for part in text.split(","))
        match = _ORDER.fullmatch(detector)
        form = "write NAME, COUNTxNAME or COUNTxNAME@HZ, such as 2xeiger2-16m@100,ratio=8,duty=0.3"
        if (miswritten := _MISWRITTEN.fullmatch(detector)) is not None:
            count, name, rate = _count_and_name(miswritten)
            raise UsageError(
                f'"{text}" does not name a detector', f"write {count}x{name}{rate} for {count} detectors"
            )
        if match is None:
            raise UsageError(f'"{text}" does not name a detector', form)
        own = dict(setting.partition("=")[::2] for setting in settings)
        if unknown := own.keys() - {"ratio", "duty"}:
            raise UsageError(
                f'"{text}": unknown setting "{min(unknown)}"', f"ratio and duty are known; {form}"
            )
        try:
            return cls.model_validate(
                {
                    "name": match["name"],
                    "count": match["count"] or 1,
                    "rate_hz": match["rate"],
                    **own,
                }
            )
        except ValidationError as error:
            raise _wrong_part(text, own, error) from error


_MISWRITTEN = re.compile(
    r"(?P<before>[0-9]{1,6})\s*[*×X]\s*(?P<name>[^@]+?)(?P<rate>@[^@]+)?"
    r"|(?P<name_first>[^@]+?)\s*[*×xX]\s*(?P<after>[0-9]{1,6})(?P<rate_first>@[^@]+)?"
)
_HZ = re.compile(r"(?P<number>[0-9.]+)\s*[kK]?[hH][zZ]")


def _count_and_name(miswritten: re.Match[str]) -> tuple[str, str, str]:
    found = miswritten.groupdict(default="")
    return (
        found["before"] or found["after"],
        found["name"] or found["name_first"],
        found["rate"] or found["rate_first"],
    )


def _wrong_part(text: str, settings: dict[str, str], error: ValidationError) -> UsageError:
    """Returns the error about one part of a detector's argument."""
    first = error.errors()[0]
    part = str(first["loc"][0])
    given = settings.get(part, str(first["input"]))
    if part == "rate_hz" and (unit := _HZ.fullmatch(given)) is not None:
        hint = f"such as {text.replace(given, unit['number'])}"
        if "k" in given.lower():
            hint = "such as 1000 for 1 kHz"
        return UsageError(
            f'rate "{given}" in {text} has a unit', f"write the number in Hz without a unit, {hint}"
        )
    name, remedy = {
        "count": ("count", f"give a count from 1 to {_COUNT_MAX}"),
        "rate_hz": ("rate", f"give a rate in Hz, greater than 0 and at most {_RATE_MAX:.0f}"),
        "ratio": ("ratio", "give a ratio from 1 to 1000000"),
        "duty": ("duty", "give a duty cycle greater than 0 and at most 1"),
    }[part]
    return UsageError(f'{name} "{given}" in {text}: {words_of(first)}', remedy)
