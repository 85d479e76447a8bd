"""`dynacomm-inspect PATH`: shows what a trace holds and what the costs made from it say.

PATH is a trace file (`*.xplane.pb`), the folder of a run, or a `--logdir`. Of a logdir the latest
trace is shown, and the latest `costs-<epoch>.json` with what every scheduler would make of it.
"""

from __future__ import annotations

import collections
import pathlib
import re
from collections.abc import Iterable, Sequence

import numpy as np
from absl import flags

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import schedulers, timeline
from tf_dynacomm.tools import command, environment

_OPERATIONS = flags.DEFINE_integer(
    "operations", 10, "How many of the longest operations to show for each host.", lower_bound=0
)
_EPOCH = re.compile(r"costs-(\d+)\.json")


def main(argv: Sequence[str]) -> None:
    """Prints the tables."""
    path = pathlib.Path(argv[1])
    environment.load_tensorflow()
    from tf_dynacomm.profiling import trace

    try:
        hosts = trace.read(trace.run_files(path))
    except trace.TraceError as error:
        raise command.UserError(str(error)) from error
    sections = [section for host in hosts for section in host_sections(host, _OPERATIONS.value)]
    costs_path = latest_costs(path)
    if costs_path is not None:
        with command.user_errors("PATH"):
            sections += costs_sections(costs_path.name, costs_lib.LayerCosts.load(costs_path))
    print("\n\n".join(sections))


def host_sections(host, operations: int) -> list[str]:
    """Describes what a host recorded: its transfers and its longest operations.

    Args:
      host: The host's `HostTrace`.
      operations: How many operations to show.
    """
    moving = [step for step in host.steps.values() if step.transfers]
    sections = [f"{host.host}: {len(host.steps)} functions ran, {len(moving)} of them received"]
    waits_s = collections.defaultdict(list)
    times_s = collections.defaultdict(list)
    for step in host.steps.values():
        for source, transfer in step.transfers.items():
            waits_s[source].append(transfer.arrived_s - transfer.requested_s)
        for operation in step.operations:
            times_s[operation.node].append(operation.end_s - operation.start_s)
    if waits_s:
        rows = [(name, len(s), _ms(np.median(s))) for name, s in waits_s.items()]
        sections.append(table(("received", "times", "wait, median ms"), rows))
    longest = sorted(times_s.items(), key=lambda item: -sum(item[1]))[:operations]
    if longest:
        rows = [(name, len(s), _ms(np.median(s)), _ms(sum(s))) for name, s in longest]
        sections.append(table(("operation", "times", "median ms", "in all ms"), rows))
    return sections


def latest_costs(path: pathlib.Path) -> pathlib.Path | None:
    """The costs file of the latest epoch in a folder, if there is one."""
    found = [p for p in path.glob("costs-*.json") if _EPOCH.fullmatch(p.name)]
    return max(found, key=lambda p: int(_EPOCH.fullmatch(p.name)[1]), default=None)


def costs_sections(name: str, costs: costs_lib.LayerCosts) -> list[str]:
    """Describes costs: each layer's, and a step's time under every scheduler's plan."""
    vectors = (costs.pull_s, costs.forward_s, costs.backward_s, costs.push_s)
    rows = [
        (layer, *map(_ms, seconds)) for layer, *seconds in zip(costs.names, *vectors, strict=True)
    ]
    layers = table(("layer", "pull ms", "forward ms", "backward ms", "push ms"), rows)
    overheads = f"Δt: pull {_ms(costs.overhead_pull_s)} ms, push {_ms(costs.overhead_push_s)} ms"
    return [f"{name}\n{layers}\n{overheads}", _comparison(costs)]


def _comparison(costs: costs_lib.LayerCosts) -> str:
    rows = []
    for name in schedulers.names():
        try:
            plan = schedulers.get(name)(costs)
        except ValueError:  # Some schedulers refuse so many layers.
            continue
        step_s = timeline.simulate(costs, plan).iteration_s
        rows.append((name, len(plan.pull), len(plan.push), _ms(step_s)))
    rows.sort(key=lambda row: float(row[-1]))
    return table(("scheduler", "pull segments", "push segments", "transfers and compute, ms"), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lays out a table: names to the left, numbers to the right."""
    cells = [tuple(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        numbers = [c.rjust(w) for c, w in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *numbers]).rstrip())
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def run() -> None:
    """Runs the command."""
    command.run(main, operand="PATH")


if __name__ == "__main__":
    run()
