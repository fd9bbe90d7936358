"""The whole check of a machine and a folder before a recording."""

import platform
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.bench.doctor.detector import codec_of, detector_findings
from penstock.bench.doctor.machine import machine_findings
from penstock.bench.doctor.pool import Pool
from penstock.bench.doctor.software import software_findings
from penstock.bench.run.codec_speed import measure_codec
from penstock.files.sheet.machine import processor_name
from penstock.files.sheet.sheet import data_sheet
from penstock.files.writable import write_problem
from penstock.model.catalogue import Detector
from penstock.model.configuration import Configuration
from penstock.model.errors import PenstockError
from penstock.model.plan.checkup import Checkup, Finding, problem
from penstock.model.plan.sizing import CodecMeasurement
from penstock.model.plans import Encoding
from penstock.programs.process import LogLine


@dataclass(frozen=True)
class Recorder:
    """What is known of the recorder that will run: its codec and pool, and the file that they are from."""

    encoding: Encoding | None = None
    """None: what the detector requires"""
    filter: str = ""
    """filter plug-in in the place of an encoding"""
    level: int = 0
    pool: Pool = field(default_factory=Pool)
    configuration: Path | None = None

    @classmethod
    def of(cls, path: Path, configuration: Configuration, encoding: Encoding | None) -> "Recorder":
        """`encoding` takes the place of the configuration's codec."""
        codec, is_set = configuration.codec, "codec" in configuration.model_fields_set
        own = encoding is None and is_set
        return cls(
            encoding=codec.encoding if own and codec.filter is None else encoding,
            filter="" if not own or codec.filter is None else str(codec.filter),
            level=codec.level if own else 0,
            pool=Pool(configuration.pool_bytes, path.name),
            configuration=path,
        )


def examine(
    folder: Path, detector: Detector | None, recorder: Recorder, log: LogLine, asked: str = ""
) -> Checkup:
    """Checks `folder`, which is there, and this machine; with a detector also whether they suffice for it.

    With a detector and a codec it measures the codec for a few seconds, in a temporary folder. `asked`: the
    detector as the user named it.
    """
    sheet = data_sheet(folder)
    findings = [
        *_writable(folder),
        *machine_findings(sheet, with_processors=detector is None, pool=recorder.pool),
    ]
    findings += software_findings()
    if detector is not None:
        encoding = recorder.encoding or codec_of(detector)
        if recorder.filter:
            codec, why = None, f"the speed of the filter {recorder.filter} is not measured"
        else:
            codec, why = _codec_speed(detector, encoding, recorder.level, log)
        name = recorder.filter or encoding
        findings += detector_findings(sheet, detector, name, codec, why, recorder.pool)
    made = checkup_of(str(folder.absolute()), detector, findings)
    return made.model_copy(update={"next": next_commands(folder, asked, recorder.configuration)})


def next_commands(folder: Path, detector: str, configuration: Path | None) -> list[str]:
    """Returns the commands that measure the storage, and the whole chain."""
    name = shlex.quote(detector) if detector else "DETECTOR"
    config = "" if configuration is None else f" --config {shlex.quote(str(configuration))}"
    where = shlex.quote(str(folder))
    return [f"penstock verdict {name} {where}", f"penstock rehearse {name} {where}{config}"]


def checkup_of(path: str, detector: Detector | None, findings: Sequence[Finding]) -> Checkup:
    """Problems come first."""
    order = {"problem": 0, "warning": 1, "unknown": 2, "ok": 3}
    return Checkup(
        path=path,
        host=platform.node(),
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        detector="" if detector is None else detector.name,
        ready=all(each.outcome != "problem" for each in findings),
        findings=sorted(findings, key=lambda each: order[each.outcome]),
    )


def _writable(folder: Path) -> list[Finding]:
    found = write_problem(folder)
    if found is None:
        return []
    what, remedy = found
    return [problem("permission", what, "the recorder cannot create files there", remedy)]


def _codec_speed(
    detector: Detector, encoding: Encoding, level: int, log: LogLine
) -> tuple[CodecMeasurement | None, str]:
    """The measurement, or None and the reason."""
    if encoding == "none":
        return None, ""
    log(f"measuring {encoding} on simulated frames of {detector.name}")
    try:
        return measure_codec(detector, encoding, None, processor_name(), log, level), ""
    except PenstockError as error:
        return None, error.message
