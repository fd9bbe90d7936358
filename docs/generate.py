"""Writes the reference pages that follow from the code: python docs/generate.py

docs/reference/cli.md from the help of the commands; docs/reference/configuration.md, campaign.md, load.md and
the JSON Schemas from the pydantic models.
tests/python/house/test_docs.py fails when a page and the code differ.
"""

import json
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer.main
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from penstock.bench.run.workloads import WORKLOADS
from penstock.cli import application, words
from penstock.cli.lazy import argument_name, usage_arguments
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Baseline, Campaign, Line, Parameter, View
from penstock.model.bench.comparisons import Comparison, Trend
from penstock.model.bench.fault_schedules import Fault
from penstock.model.bench.load import (
    FrameImage,
    FramesWorkload,
    Hdf5Backend,
    LoadPlan,
    MetadataWorkload,
    MpiioBackend,
    NullBackend,
    PosixBackend,
    StoreBackend,
    StreamWorkload,
)
from penstock.model.bench.network import NetworkServerWorkload, NetworkWorkload
from penstock.model.bench.rehearsals import Rehearsal, RehearsalComparison
from penstock.model.bench.runs import Run, Verdict, schema_of
from penstock.model.configuration import (
    ChannelFilter,
    Codec,
    Configuration,
    Metrics,
    PvaSource,
    TcpSource,
    ZmqSource,
)
from penstock.model.layout.own_tree import GROUPS, ITEMS, KEPT
from penstock.model.layout.yaml_layout import AttributeFrom, LayoutFile, LayoutNode, LayoutParameter
from penstock.model.plan.checkup import Checkup
from penstock.model.plan.datasheet import DataSheet
from penstock.model.plan.sizing import Sizing
from penstock.model.plans import (
    ChunkPlan,
    ElementPlan,
    FilesPlan,
    MachinePlan,
    NexusPlan,
    ScanAxisPlan,
    ScanPlan,
    StorePlan,
)
from penstock.model.units import format_size

REFERENCE = Path(__file__).resolve().parent / "reference"
NOTE = "<!-- Written by docs/generate.py; change the code, then run it again. -->"

EXAMPLE = """\
folder: /data/run42            # it must exist
file_name: "{date}-{series_unique_id}.h5"
pool_bytes: 4 GiB
when_full: hold
sources:
  - kind: tcp                  # Penstock's own protocol, with acknowledgements
    listen: 127.0.0.1:9900
  - kind: zmq                  # a detector that binds, as DECTRIS detectors do
    endpoint: tcp://127.0.0.1:31001
codec:
  encoding: bslz4
store:
  durability: interval
  sync_interval_ms: 500
"""


_ABOUT_EXIT_CODES = """\
*Wrong usage* means an error in what was given, found before anything is written: an invalid option,
description or document; a target that is missing or not writable; an output file that exists, or whose
directory is missing; or a question without `--yes` and without a terminal. *Failed* means that the work was
not possible: too little free space, a port in use, a storage that is gone, an error of the system. `verdict`
and `compare` then exit with 5, because 1 is one of their answers. A `verdict` or `rehearse` that ended
early, because it was interrupted or a step failed, exits with 5 whatever it answers, since the rest could
have changed the answer. Only a *no* or *likely no* keeps its 1: lost frames stay lost. `record`, `pva` and
`collect` end as usual if they are interrupted: Ctrl-C and SIGTERM complete what is open. `info` only
describes a file: it exits with 0 also if frames are missing, lost or damaged, and with 1 if the file cannot
be read; `check` judges it.""".splitlines()


def _exit_code_table() -> list[str]:
    codes = sorted({code for each in words.ALL for code in each.meanings})
    rows = [["Code", *(each.commands for each in words.ALL)], ["---"] * (len(words.ALL) + 1)]
    rows += [[str(code), *(each.meanings.get(code, "") for each in words.ALL)] for code in codes]
    return [f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in rows]


def cli_page() -> str:
    group: Any = typer.main.get_command(application)
    lines = ["# The penstock command", "", NOTE, "", group.help, ""]
    lines += ["Results go to standard output, progress, logs and errors to standard error.", ""]
    lines += ["## Exit codes", "", *_exit_code_table(), "", *_ABOUT_EXIT_CODES, ""]
    for name, command in _commands(group):
        lines += [f"## penstock {name}", "", *_paragraphs(command.help), ""]
        lines += [
            f"`penstock {name} {_usage(command)}`",
            "",
            "| Argument or option | Meaning | Default |",
            "| --- | --- | --- |",
        ]
        lines += [
            _parameter_row(parameter, command) for parameter in command.params if parameter.name != "help"
        ]
        lines += ["", "Examples:", "", "```console", *_examples(command.epilog), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: Any) -> list[tuple[str, Any]]:
    """Those of groups by both their names."""
    found = []
    for name, command in group.commands.items():
        inner = _commands(command) if hasattr(command, "commands") else [("", command)]
        found += [(f"{name} {under}".strip(), each) for under, each in inner]
    return found


def _paragraphs(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _usage(command: Any) -> str:
    return " ".join(["[OPTIONS]", *usage_arguments(command)])


def _parameter_row(parameter: Any, command: Any) -> str:
    help_text = parameter.help or ""
    text, _, named = help_text.partition(" [default: ")
    default = named.rstrip("]")
    if not default and parameter.default not in (None, "", False, [], ()) and not parameter.required:
        default = (
            str(parameter.default).lower() if isinstance(parameter.default, bool) else str(parameter.default)
        )
    if parameter.param_type_name == "argument":
        shown = argument_name(parameter)
    else:
        shown = ", ".join(parameter.opts) + "".join(f" / {name}" for name in parameter.secondary_opts)
        if not parameter.is_flag:
            shown += f" {_metavar(parameter, command)}"
    text += _range_of(parameter)
    if getattr(parameter, "envvar", None):
        text += f" Also the variable `{parameter.envvar}`."
    return f"| `{_cell(shown)}` | {_cell(text)} | {f'`{_cell(default)}`' if default else ''} |"


def _range_of(parameter: Any) -> str:
    """ " 1 to 256." of an option with limits."""
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if (low is None and high is None) or (high or 0) >= 2**32:
        return ""
    shown = [
        f"{limit:g}" if isinstance(limit, float) else str(limit) for limit in (low, high) if limit is not None
    ]
    return f" {' to '.join(shown)}." if high is not None else f" At least {shown[0]}."


def _metavar(parameter: Any, command: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    hint = get_type_hints(command.callback)[parameter.name]
    kinds = [part for part in _parts(hint) if part is not NoneType]
    inner = [part for kind in kinds for part in (get_args(kind) if get_origin(kind) is list else [kind])]
    return {int: "N", float: "NUMBER", Path: "PATH"}.get(inner[0], "TEXT")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _examples(epilog: str) -> list[str]:
    return [f"$ {line.strip()}" for line in epilog.splitlines() if "penstock " in line]


def configuration_page() -> str:
    lines = [
        "# The configuration of penstock record",
        "",
        NOTE,
        "",
        "The configuration is a YAML file: `penstock record FILE.yaml`. Command options override it. Absent",
        "fields have their defaults; unknown fields are rejected. Sizes are numbers of bytes, or text with a",
        "unit: `8 MiB`, `1.5 GB`. `penstock init` writes a file to start from, and",
        "`penstock record FILE.yaml --dry-run` shows the resulting settings.",
        "",
        "```yaml",
        *EXAMPLE.rstrip().splitlines(),
        "```",
        "",
        "## Fields",
        "",
        *_table(Configuration),
    ]
    for title, model in (
        ("A source of kind tcp", TcpSource),
        ("A source of kind zmq", ZmqSource),
        ("The element of a source of kind zmq", ElementPlan),
        ("A source of kind pva", PvaSource),
        ("files", FilesPlan),
        ("codec", Codec),
        ("codec.channels", ChannelFilter),
        ("chunk", ChunkPlan),
        ("scan", ScanPlan),
        ("scan.axes", ScanAxisPlan),
        ("nexus", NexusPlan),
        ("store", StorePlan),
        ("machine", MachinePlan),
        ("metrics", Metrics),
    ):
        lines += ["", f"## {title}", "", *_paragraphs(model.__doc__ or ""), "", *_table(model)]
    return "\n".join(lines).rstrip() + "\n"


def _table(model: type[BaseModel]) -> list[str]:
    rows = ["| Field | Allowed | Default | Meaning |", "| --- | --- | --- | --- |"]
    for name, info in model.model_fields.items():
        cells = (
            f"`{name}`",
            _cell(_allowed(name, info)),
            _cell(_default(name, info)),
            info.description or "",
        )
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _allowed(name: str, info: FieldInfo) -> str:
    choices = [
        value for part in _parts(info.annotation) if get_origin(part) is Literal for value in get_args(part)
    ]
    if choices:
        return ", ".join(f"`{value}`" for value in choices)
    words = {
        "bool": "`true`, `false`",
        "str": "text",
        "Path": "path",
        "float": "number",
        "int": "whole number",
        "dict": "fields",
        "list": "list",
    }
    kinds = [getattr(get_origin(part) or part, "__name__", "") for part in _parts(info.annotation)]
    text = " or ".join(words[kind] for kind in kinds if kind in words)
    if get_origin(info.annotation) is list and _is_number(get_args(info.annotation)[0]):
        return "list of whole numbers"
    if (not text and not _is_size(info)) or name in ("sources", "channels", "axes"):
        return f"{text or 'fields'}, see below"
    low = next((item.ge for item in info.metadata if hasattr(item, "ge")), None)
    high = next((item.le for item in info.metadata if hasattr(item, "le")), None)
    if _is_size(info) or name.endswith("_bytes") or name == "frame_bytes_max":
        return "size" + (f", {format_size(low or 0)} to {format_size(high)}" if high is not None else "")
    return text + (f", {low} to {high}" if high is not None else "")


def _is_size(info: FieldInfo) -> bool:
    """Whether text with a unit is understood."""
    inner = [item for part in _parts(info.annotation) for item in getattr(part, "__metadata__", ())]
    return any(isinstance(item, WithJsonSchema) for item in (*info.metadata, *inner))


def _is_number(annotation: Any) -> bool:
    return annotation is int or get_args(annotation)[:1] == (int,)


def _parts(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [part for inner in get_args(annotation) for part in _parts(inner)]
    return [annotation]


def _default(name: str, info: FieldInfo) -> str:
    if info.default is PydanticUndefined:
        if name == "sources":
            return "one of kind tcp"
        if info.default_factory is None:
            return "required"
        return "none" if info.default_factory in (dict, list) else "the defaults below"
    if info.default is None:
        return ""
    if _is_size(info) or name.endswith("_bytes") or name == "frame_bytes_max":
        return f"`{format_size(info.default)}`" if info.default else "`0`"
    return f"`{str(info.default).lower() if isinstance(info.default, bool) else info.default}`"


LOAD_PAGE = """\
`penstock-load --plan JOB` generates load on a storage or network and writes its measurements into one
document. `penstock bench` and `penstock verdict` write the job, create the working directory and evaluate
the document. If you call the program directly, create the directory first and remove the files afterwards.
The program creates files with permissions 0604 and directories with 0715: `penstock bench` knows its own by
these.

Events are JSON lines on standard output: `progress` several times per second, and at the end `made` and
`result` with the `document`. `made` lists what exists because this run created it, so what may be removed:
`files` and `partial` (not yet renamed) as ranges of numbers, and in `names` what each thread of a metadata
workload did with its items, in their order. It is null if a rank has not reported. If the program fails
without a result, `failed` gives `code`, `path` and `detail`. A network_server reports `listening` and each
`session` ([protocol](network.md)). SIGINT and SIGTERM end the run early; the document then has the
measurements so far. Exit status: 0 success, 1 failure (the document has the measurements so far), 2 invalid
job.

Processes started by `mpirun` or `srun` are ranks that generate load together: rank 0 reads the job and
prints the events. With `--stop-at-eof` the run ends at the end of standard input. When a job is terminated,
it prints its measurements as `partial` shortly before the `result`, which may be missing if a rank has
died.

The [schema of a run](run.schema.json) describes the document as `LoadDocument`. `problem` says for people
why a run ended early; `failure` says it for programs, by `code`, `path` (relative to the directory of the
run) and `detail`. Decisions need the code alone: `already_exists`, `no_space`, `timed_out`, `io` and so on.
All times of a run count from the moment when its first frame was due.

## The job

One JSON object. Absent fields have their defaults; unknown fields are rejected.
"""


def load_page() -> str:
    lines = ["# penstock-load", "", NOTE, "", LOAD_PAGE, *_table(LoadPlan)]
    for title, model in (
        ("backend of kind posix", PosixBackend),
        ("backend of kind mpiio", MpiioBackend),
        ("backend of kind hdf5", Hdf5Backend),
        ("backend of kind store", StoreBackend),
        ("backend of kind null", NullBackend),
        ("workload of kind frames", FramesWorkload),
        ("image of a workload of kind frames", FrameImage),
        ("workload of kind stream", StreamWorkload),
        ("workload of kind metadata", MetadataWorkload),
        ("workload of kind network", NetworkWorkload),
        ("workload of kind network_server", NetworkServerWorkload),
    ):
        lines += ["", f"## {title}", "", *_paragraphs(model.__doc__ or ""), "", *_table(model)]
    return "\n".join(lines).rstrip() + "\n"


CAMPAIGN_EXAMPLE = """\
title: How long frames wait at three rates
workload: frames
parameters: {frame_size: 1 MiB, seconds: 15}
vary:
  rate: [10, 20, 40]
blocks: 5
views:
  - {kind: plot, title: Latency, value: latency p99, rows: rate, columns: [target]}
"""

CAMPAIGN_PAGE = """\
`penstock campaign FILE --target PATH --output DOCUMENT` runs a YAML description: every case on every
target, once in each block ([how](../how-to/qualify/run-a-campaign.md)). Unknown fields are rejected. The
document follows its [schema](campaign.schema.json).
"""


VALUES_TEXT = """\
A view shows one metric of the runs. Some metrics need parameters: `lost` and `late` need a rate, `read` is
absent without a read phase, `file read` needs files that are not empty, renaming must be requested, and
round trips have the sizes in `latency`. Other metrics are rejected before the first run.
"""

FAULTS_TEXT = """\
With `schedules`, the parameter `faults` of a case names one of them, or `none`. Targets are laboratories.
A schedule that a target cannot carry out is rejected before the first run: an unknown server, or `fail`
where no second copy exists. When a run ends, or is interrupted, all servers are healed.

```yaml
schedules:
  killed: [{at_s: 10, server: 2, fault: fail}, {at_s: 20, server: 2, fault: heal}]
vary:
  faults: [none, killed]
```
"""

FAULT_VALUES_TEXT = """\
Runs with faults also have `healing`, and runs of frames: `dip` (longest time without a written frame),
`return` (from the fault until the end of that time), `catch-up` (from the fault until frames were written as
soon as before), all of the worst fault in seconds, and `wrong`, the share of written frames that are missing
or have other bytes when they are read back. `healing` is the time from `heal` until the system reported
that it had all copies.
"""

DERIVED_TEXT = """\
Views may also show requested and derived metrics; `penstock compare` ignores these. `needed` is the bytes
per second of the frames that become due. `both: total` is the sum of both directions. `link` and shares of
it exist if the link speed is known; the sum of both directions is a share of twice that.
"""

WITH_ALL_VALUES: dict[str, dict[str, Parameter]] = {
    "acquire-and-analyse": {"detector": "eiger2-1m"},
    "frames": {"rate": 1},
    "metadata": {"file_size": 1, "rename": True},
    "network": {"latency": "8B"},
}


def campaign_page() -> str:
    lines = ["# The description of a campaign", "", NOTE, "", CAMPAIGN_PAGE]
    lines += [
        "```yaml",
        *CAMPAIGN_EXAMPLE.rstrip().splitlines(),
        "```",
        "",
        "## Fields",
        "",
        *_table(CampaignFile),
    ]
    models: list[tuple[str, type[BaseModel]]] = [("views", View), ("views.share_of", Baseline)]
    models.append(("views.lines", Line))
    models.append(("schedules", Fault))
    models += [(f"parameters of the workload {name}", model) for name, model in WORKLOADS.items()]
    for title, model in models:
        lines += ["", f"## {title}", "", *_paragraphs(model.__doc__ or ""), ""]
        if model is Fault:
            lines += [*FAULTS_TEXT.splitlines(), ""]
        lines += _table(model)
    for name, model in WORKLOADS.items():
        scaled = ", ".join(f"`{parameter}`" for parameter in model.SCALED)
        lines += ["", f"`scale` multiplies {scaled} of the workload {name}."]
    lines += ["", "## value of a view", "", *VALUES_TEXT.splitlines(), ""]
    for name, model in WORKLOADS.items():
        values = model.model_validate(WITH_ALL_VALUES.get(name, {})).values()
        lines.append(f"- {name}: {', '.join(f'`{value}`' for value in values)}")
    lines += ["", *FAULT_VALUES_TEXT.splitlines(), "", *DERIVED_TEXT.splitlines(), ""]
    for name, model in WORKLOADS.items():
        if derived := model.model_validate(WITH_ALL_VALUES.get(name, {})).derived():
            lines.append(f"- {name}: {', '.join(f'`{value}`' for value in derived)}")
    return "\n".join(lines).rstrip() + "\n"


LAYOUT_EXAMPLE = """\
metadata: /entry/slow
attributes: {default: entry}
tree:
  entry:
    attributes: {NX_class: NXentry, default: data}
    tree:
      start_time: {series: arm_date}
      sample: {nxmx: /entry/sample}
      data:
        attributes: {NX_class: NXdata, signal: data, made: {constant: 7, type: uint8}}
        tree:
          data: {frames: 0, attributes: {units: counts}}
          current: {metadata: ring_current, type: float, attributes: {units: mA}}
          current_at_end: {metadata: ring_current, when: last}
      detector:
        tree:
          data: {link: /entry/data/data}
"""

LAYOUT_PAGE = """\
A layout defines the tree in a file ([how to use one](../how-to/record/choose-a-layout.md)). It is a YAML
file, a file in areaDetector's XML, or a ready layout, given as `layout` in the configuration or as
`penstock record --layout`. Limits: 1 MiB, 65536 objects, 64 levels, 1024 bytes per path, 4096 attributes
per object. Names may contain any characters except `/` and control characters; others than letters, digits,
`_`, `-` and `.` give a warning. `/entry/penstock` is reserved.
"""

# Element, attribute, effect.
LAYOUT_ELEMENTS = (
    (
        "`hdf5_layout`",
        "`auto_ndattr_default`",
        "`true` (the default): frame values without a dataset go into the group with "
        "`ndattr_default`, or the root. `false`: into /entry/penstock/metadata; areaDetector"
        " drops them",
    ),
    (
        "`global`",
        "`name`, `ndattribute`",
        "`detector_data_destination`: the value with the path of the dataset for each frame "
        "([how](../how-to/record/choose-a-layout.md#sort-frames-into-several-datasets)). "
        "Others are ignored with a warning",
    ),
    (
        "`group`",
        "`name`",
        "a group",
    ),
    (
        "",
        "`ndattr_default`",
        "`true`: the group of values without a dataset; the first of several, with a warning",
    ),
    (
        "`dataset`",
        "`name`, `source`",
        "`detector`: the frames; `ndattribute`: a frame value; `constant`. Without `source`, "
        "or without the name of a frame value, a dataset named `timestamp` gets the arrival times of frames"
        " (`received` below)",
    ),
    (
        "",
        "`det_default`",
        "selects the dataset that gets all frames that choose none, by default the first by path; without "
        "`detector_data_destination` the others, and links to them, are left out with a warning",
    ),
    (
        "",
        "`ndattribute`",
        "the name of the value; sources other than areaDetector send it in `user_data`",
    ),
    (
        "",
        "`when`",
        "`OnFileOpen`: the first frame's value; `OnFileClose`: the last one's; `OnFileWrite`, "
        "anything else, or absent: one value per frame",
    ),
    (
        "",
        "`value`, `type`",
        "a constant: `int` is int32, `float` float64, both also as lists with commas; "
        "`string`, the default, is text. Whole numbers may be hexadecimal (`0x1F`)",
    ),
    (
        "`attribute`",
        "`name`, `source`",
        "`constant` or `ndattribute`; attribute of a group or dataset",
    ),
    (
        "",
        "`value`, `type`",
        "as for datasets",
    ),
    (
        "",
        "`ndattribute`, `when`",
        "`OnFileClose`: the last frame's value; anything else: the first one's",
    ),
    (
        "`hardlink`",
        "`name`, `target`",
        "a second name of a dataset or group. The target is a path from the root",
    ),
)

LAYOUT_XML = """\
## areaDetector's XML

These are the files of NDFileHDF5 (ADCore's `hdf5_xml_layout_schema.xsd`). `penstock layout show FILE.xml
--yaml` converts them to YAML. A document type (DOCTYPE) is rejected. As in areaDetector the root element
may have any name, unknown elements and attributes are skipped, and what cannot be is left out, each with a
warning: objects without a name or source, values that do not have their type, links to nothing or back into
their own group. Of several objects or attributes of one name there is the first; a group may be continued.
"""

LAYOUT_VALUES = """\
Datasets of frame values have the attribute `NDAttrName`; `NDAttrDescription` and `NDAttrSource` are empty
and `NDAttrSourceType` is `NDAttrSourceUndefined`, because streams do not contain them. A single value is a
scalar: of the first or the last frame, by number, that has it. While a file grows, values of the last frame
are those of the first one; `penstock recover` takes the last frame's from the segments. Numbers keep the type
of the stream. If several datasets name a value, the first has it and the others are links. A dataset whose
value is missing in the first frame is left out, with the links to it. If a later frame brings the value, the
dataset is made when the series closes, without attributes and links.

`NDArrayUniqueId`, `NDArrayTimeStamp`, `NDArrayEpicsTSSec` and `NDArrayEpicsTSnSec` are the frame's values
of that name; without them, the frame number and the arrival time since 1990-01-01, as in EPICS.
"""


def layout_page() -> str:
    lines = ["# Layouts of what is in a file", "", NOTE, "", LAYOUT_PAGE]
    lines += ["```yaml", *LAYOUT_EXAMPLE.rstrip().splitlines(), "```"]
    for title, model in (
        ("Fields", LayoutFile),
        ("tree: objects", LayoutNode),
        ("attributes", AttributeFrom),
        ("parameters", LayoutParameter),
    ):
        lines += ["", f"## {title}", "", *_paragraphs(model.__doc__ or ""), "", *_table(model)]
    lines += [
        "",
        "## series: items of a series",
        "",
        "Items that the sender did not send are left out, with links to them.",
        "",
    ]
    lines += ["| Name | In the default layout | Meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | `{item.path}` | {item.what} |" for name, item in ITEMS.items()]
    lines += ["", f"Objects below {KEPT} stay there, and get a second name (a hard link)."]
    lines += ["", "## nxmx: groups of the default layout", "", "| Group | Content |", "| --- | --- |"]
    lines += [f"| `{path}` | {what} |" for path, what in GROUPS.items()]
    lines += ["", LAYOUT_XML, "| Element | Attribute | Effect |", "| --- | --- | --- |"]
    lines += ["| " + " | ".join(row) + " |" for row in LAYOUT_ELEMENTS]
    lines += ["", LAYOUT_VALUES]
    return "\n".join(lines).rstrip() + "\n"


def schema_page(model: type[BaseModel]) -> str:
    return json.dumps(schema_of(model), indent=1) + "\n"


PAGES = {
    "cli.md": cli_page,
    "configuration.md": configuration_page,
    "layout.md": layout_page,
    "load.md": load_page,
    "datasheet.schema.json": lambda: schema_page(DataSheet),
    "checkup.schema.json": lambda: schema_page(Checkup),
    "campaign.md": campaign_page,
    "campaign.schema.json": lambda: schema_page(Campaign),
    "run.schema.json": lambda: schema_page(Run),
    "sizing.schema.json": lambda: schema_page(Sizing),
    "verdict.schema.json": lambda: schema_page(Verdict),
    "rehearsal.schema.json": lambda: schema_page(Rehearsal),
    "rehearsal-comparison.schema.json": lambda: schema_page(RehearsalComparison),
    "comparison.schema.json": lambda: schema_page(Comparison),
    "trend.schema.json": lambda: schema_page(Trend),
}


def main() -> None:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
