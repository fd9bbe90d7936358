"""A console that names from files and from the network cannot move the cursor of."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from penstock.model.text import harmless


class SafeConsole(Console):
    """Prints escapes for characters that cannot be printed, whoever puts them into a text, table or tree."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the segments as Rich makes them, with harmless text; Rich adds colours afterwards."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)
