"""Detectors of the catalogue, and of users' files, as tables."""

from collections.abc import Iterator, Mapping

from rich.markup import escape
from rich.table import Table

from penstock.model.catalogue import Detector, Modules, Ratios
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_hz, human_number, human_rate
from penstock.report.tables import fact_table

_UNKNOWN = "unknown"


def detector_table(catalogue: Mapping[str, Detector]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("name", "detector"):
        table.add_column(title, no_wrap=title == "name")
    for title in ("rows", "columns", "type", "frame", "rate", "data rate", "ratio"):
        table.add_column(title, justify="left" if title == "type" else "right")
    for key, detector in catalogue.items():
        ratios = detector.compression
        table.add_row(
            key,
            escape(detector.name),
            str(detector.rows),
            str(detector.columns),
            detector.type,
            human_bytes(detector.frame_bytes),
            human_hz(detector.rate_hz, 6) if detector.rate_hz else _UNKNOWN,
            human_rate(detector.bytes_per_s) if detector.rate_hz else _UNKNOWN,
            human_number(ratios.typical) if ratios else _UNKNOWN,
        )
    return table


def detector_sheet(detector: Detector) -> Table:
    return fact_table(dict(_rows(detector)))


def _rows(detector: Detector) -> Iterator[tuple[str, str]]:
    """Yields what is known, and "unknown" for what a plan or a file needs. Empty values are not shown."""
    rate = f"{human_hz(detector.rate_hz, 6)}, {human_rate(detector.bytes_per_s)}"
    yield "detector", detector.name
    yield "description", detector.description
    yield "vendor", detector.vendor
    megapixels = f"{human_number(detector.megapixels)} megapixels"
    yield (
        "pixels",
        f"{counted(detector.rows, 'row')} x {detector.columns} columns ({megapixels}), {detector.type}",
    )
    yield "bit depth", str(detector.bit_depth or "")
    yield "frame", f"{human_bytes(detector.frame_bytes)} ({detector.frame_bytes} bytes)"
    yield "maximum rate", rate if detector.rate_hz else _UNKNOWN
    yield "typical rate", human_hz(detector.typical_rate_hz, 6) if detector.typical_rate_hz else ""
    yield "pixel size", _pixel_size(detector)
    yield "sensor", _sensor(detector)
    yield "modules", _modules(detector.modules) if detector.modules else ""
    yield "gaps", counted(len(detector.gaps), "rectangle") if detector.gaps else "none"
    yield "gap value", "" if detector.gap_value is None else str(detector.gap_value)
    yield "saturation", "" if detector.saturation_value is None else str(detector.saturation_value)
    yield "elements", str(detector.elements or "")
    yield "compression ratio", _ratios(detector.compression) if detector.compression else _UNKNOWN
    yield "sends", "" if detector.sends == "none" else f"{detector.sends} (compressed by the detector)"
    yield "approximate", detector.approximate_because
    yield "source", detector.source


def _pixel_size(detector: Detector) -> str:
    if detector.pixel_size_m is None:
        return _UNKNOWN
    y, x = (human_number(size * 1e6, 6) for size in detector.pixel_size_m)
    return f"{y} x {x} µm"


def _sensor(detector: Detector) -> str:
    if detector.sensor_material is None and detector.sensor_thickness_m is None:
        return _UNKNOWN
    thickness = detector.sensor_thickness_m
    thick = "of unknown thickness" if thickness is None else f"{human_number(thickness * 1e6, 6)} µm"
    return f"{detector.sensor_material or 'unknown material'}, {thick}"


def _modules(grid: Modules) -> str:
    """Returns "2 x 1 modules of 512 x 1028 pixels, gaps 38 rows and 12 columns"."""
    return (
        f"{grid.rows} x {grid.columns} modules of {grid.module_rows} x {grid.module_columns} pixels,"
        f" gaps {counted(grid.gap_rows, 'row')} and {counted(grid.gap_columns, 'column')}"
    )


def _ratios(ratios: Ratios) -> str:
    low, typical, high = (human_number(each) for each in (ratios.low, ratios.typical, ratios.high))
    return f"{typical} typical, {low} low, {high} high ({ratios.encoding}; {ratios.basis}: {ratios.source})"
