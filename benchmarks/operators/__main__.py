"""The command; see `benchmarks.operators`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minitensor as mt
from benchmarks.common import (
    can_draw,
    geometric_mean,
    machine,
    markdown_table,
    pictures,
    searched,
    times_of_best,
)
from benchmarks.compare.implementation import Implementation
from benchmarks.operators import tvm_peer
from benchmarks.operators.operators import OPERATORS, Operator
from minitensor.runtime import (
    BLAS_SPIN_SECONDS,
    SPIN_SECONDS,
    Pace,
    aligned_empty,
    interleave,
    native_target,
    ratio,
)
from minitensor.search import Log, load_best

TOLERANCE = 1e-4
"""How far an element may be off, as a fraction of the largest expected magnitude."""
PACE = Pace(rounds=9)


def tune(operator: Operator, folder: Path, trials: int, threads: int, seed: int) -> str:
    """Our search; a line of figures."""
    target = mt.Target("c", num_cores=threads)
    log = folder / f"{operator.key}.jsonl"
    result, points = searched(operator.program(), log, trials, seed, target)
    curve = [[round(t, 3), n, s] for t, n, s in points if np.isfinite(s)]
    found = {"seconds": result.elapsed, "trials": len(result.tried), "curve": curve}
    if not any(t.known for t in result.tried):
        (folder / f"{operator.key}.took.json").write_text(json.dumps(found), "utf-8")
    return (
        f"{operator.key}: {result.seconds * 1e3:.4g} ms after {len(result.tried)} trials, "
        f"{result.elapsed:.0f} s; failed {dict(result.failures)}"
    )


def tune_tvm(operator: Operator, folder: Path, trials: int, threads: int) -> str:
    """TVM's search; a line of figures."""
    there = folder / f"tvm-{operator.key}"
    took = tvm_peer.tune(operator.program(), there, trials, threads)
    best = tvm_peer.best_times(there)
    return f"{operator.key}: TVM {best[-1] * 1e3:.4g} ms after {len(best)} trials, {took:.0f} s"


def implementations(operator: Operator, folder: Path, threads: int) -> Iterator[Implementation]:
    """The implementations that are installed."""
    program, inputs = operator.program(), operator.inputs()
    target = native_target(mt.Target("c", num_cores=threads))
    out = aligned_empty(program.outputs[0].shape, np.dtype(np.float32))
    kernel = mt.build(load_best(Log(folder / f"{operator.key}.jsonl"), program, target), target)
    yield Implementation("ours", kernel.prepare(*inputs, out), lambda _: out)
    yield Implementation(
        "numpy", lambda: operator.numpy(inputs), np.asarray, spin=BLAS_SPIN_SECONDS
    )
    if importlib.util.find_spec("torch") is not None:
        import torch  # noqa: PLC0415 - optional

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        tensors = [torch.from_numpy(x) for x in inputs]
        call = lambda: operator.torch(torch, tensors)  # noqa: E731
        yield Implementation("torch", call, lambda x: x.numpy(), spin=SPIN_SECONDS)
    there = folder / f"tvm-{operator.key}"
    if (there / tvm_peer.RECORDS).exists() and importlib.util.find_spec("tvm") is not None:
        yield tvm_peer.implementation(program, there, inputs, threads)


def compare(operator: Operator, folder: Path, threads: int) -> dict[str, Any]:
    """All checked against numpy in float64, and timed in turns: one row."""
    exact = operator.numpy([x.astype(np.float64) for x in operator.inputs()])
    allowed = TOLERANCE * float(np.abs(exact).max())
    playing, dropped = [], {}
    for one in implementations(operator, folder, threads):
        off = np.abs(one.array(one.call()).reshape(exact.shape) - exact).max()
        if off <= allowed:
            playing.append(one)
        else:
            dropped[one.name] = f"off by {off:.3g}"
    turns = interleave(playing, PACE, pause=threads > 1)
    ours = turns["ours"].fastest
    row: dict[str, Any] = {
        "key": operator.key,
        "about": operator.about,
        "flop": operator.flop,
        "seconds": {name: t.seconds for name, t in turns.items()},
        "ratios": {name: ratio(ours, t.fastest) for name, t in turns.items()},
        "over_best": times_of_best(
            ours, [t.fastest for name, t in turns.items() if name != "ours"]
        ),
        "dropped": dropped,
        "ours": _read(folder / f"{operator.key}.took.json"),
        "tvm": _read(folder / f"tvm-{operator.key}" / "took.json"),
    }
    records = folder / f"tvm-{operator.key}"
    if row["tvm"] and (records / tvm_peer.RECORDS).exists():
        row["tvm"]["best"] = tvm_peer.best_times(records)
    return row


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table: milliseconds, and the others' time over ours."""
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    head = ["operator", *(f"{n}, ms" for n in names), *(f"{n} / ours" for n in names[1:])]
    lines = [[*head, "best / ours", "s, ours", "s, TVM"]]
    for row in rows:
        cells = [f"{row['key']}: {row['about']}"]
        cells += [f"{row['seconds'][n] * 1e3:.4g}" if n in row["seconds"] else "-" for n in names]
        cells += [f"{row['ratios'][n]:.2f}" if n in row["ratios"] else "-" for n in names[1:]]
        cells += [f"{row['over_best']:.2f}"]
        cells += [f"{row[who]['seconds']:.0f}" if row[who] else "-" for who in ("ours", "tvm")]
        lines.append(cells)
    means = [geometric_mean(r["ratios"][n] for r in rows if n in r["ratios"]) for n in names[1:]]
    best = geometric_mean(r["over_best"] for r in rows)
    over = ", ".join(f"{n} {m:.2f}" for n, m in zip(names[1:], means))
    means_line = f"Geometric means of the others' time over ours: {over}, the best {best:.2f}."
    return "\n".join([*markdown_table(lines), "", means_line]) + "\n"


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """How fast the best so far was after so many seconds of tuning, for us and for TVM."""
    columns = 4
    lines = math.ceil(len(rows) / columns)
    figure, axes = pictures(lines, columns, 3.5, 2.8)
    for axis, row in zip(axes.flat, rows):
        curve = row["ours"].get("curve", [])
        axis.step([t for t, _, _ in curve], [s * 1e3 for _, _, s in curve], where="post")
        best = row["tvm"].get("best", [])
        if best:  # the total time is known; its records are spread evenly over it
            each = row["tvm"]["seconds"] / len(best)
            times = [each * (n + 1) for n in range(len(best))]
            axis.step(times, [s * 1e3 for s in best], where="post")
        for name, style in (("torch", ":"), ("numpy", "--")):
            if name in row["seconds"]:
                axis.axhline(row["seconds"][name] * 1e3, color="grey", linestyle=style)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(row["key"], fontsize=9)
        axis.tick_params(labelsize=7, which="both")
    for axis in axes[-1]:
        axis.set_xlabel("seconds of tuning", fontsize=8)
    for line in axes:
        line[0].set_ylabel("best so far, ms", fontsize=8)
    figure.legend(["ours", "TVM", "torch", "numpy"], loc="upper right", fontsize=8)
    figure.tight_layout(rect=(0, 0, 0.92, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Ansor's operators: our search and its baselines")
    parser.add_argument("what", choices=("tune", "tune-tvm", "compare"))
    parser.add_argument("keys", nargs="*", choices=[[], *OPERATORS], metavar="OPERATOR")
    parser.add_argument("--save", type=Path, metavar="FOLDER", required=True)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.save.mkdir(parents=True, exist_ok=True)
    chosen = [OPERATORS[key] for key in given.keys or OPERATORS]
    print(machine())
    work: dict[str, Callable[[Operator], str]] = {
        "tune": lambda o: tune(o, given.save, given.trials, given.threads, given.seed),
        "tune-tvm": lambda o: tune_tvm(o, given.save, given.trials, given.threads),
    }
    if given.what in work:
        for operator in chosen:
            print(work[given.what](operator), flush=True)
        return
    rows = []
    for operator in chosen:
        rows.append(compare(operator, given.save, given.threads))
        print(as_markdown(rows[-1:]), flush=True)
    (given.save / "operators.json").write_text(json.dumps([machine(), rows], indent=1), "utf-8")
    (given.save / "operators.md").write_text(as_markdown(rows), "utf-8")
    if can_draw():
        plot(rows, given.save / "operators.png")
    print(as_markdown(rows))


if __name__ == "__main__":
    main()
