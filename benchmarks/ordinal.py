"""Ordered levels predicted on the nine data sets of Chu & Ghahramani, side by side in one run and beside their tables.

For each cell (data set / bins) and model, over the 20 published partitions: zero-one and mean absolute error of the
most probable level, mean absolute error of the median level, both errors of the model's own prediction where it has
one, log-loss (nats), ranked probability score and CPU seconds of the fit.  Mean ± standard deviation (standard error).
One thread, and one process a file::

    python benchmarks/ordinal.py --cells pyrimidines/5,machinecpu/10 --models constant,gpr,ours-ep
    python benchmarks/ordinal.py --out ordinal.json              # everything; started again, it goes on where it was
    python benchmarks/ordinal.py --out ordinal.json --table      # what is in the file
    python benchmarks/ordinal.py --speed

What is trained on and what the scores are stands in `_ordinal_data`, what a rival is and how it is tuned in
`_ordinal_rivals`, ours in ``_ordinal_ours.py``; its parameters come from ``--ours``, a JSON object.  ``--speed`` fits
partition 0 of bostonhousing, stocksdomain and abalone (n = 300, 600, 1000) and prints CPU seconds alone.
"""

from __future__ import annotations

import os

# Read by the pools when they are loaded, hence before the first import of numpy.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import json
import math
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from _ordinal_data import CELLS, N_PARTITIONS, PRINTED, WITHOUT_SIGNAL, OrdinalFitPredict, load, score
from _ordinal_rivals import RIVALS
from _rivals import NotApplicableError
from threadpoolctl import threadpool_limits

#: Functions of `_ordinal_ours` by the name used on the command line.
OURS = {"ours": "fit_predict", "ours-ep": "fit_predict_ep", "ours-map": "fit_predict_map"}

#: The rival that is ours written plainly: a yardstick of speed, no one's package.
YARDSTICK = "plain-ep"

#: Cells of ``--speed``.
SPEED = ("bostonhousing/5", "bostonhousing/10", "stocksdomain/5", "stocksdomain/10", "abalone/5", "abalone/10")

#: Seconds between two writings of a long run.
PATIENCE = 30.0


class Column(NamedTuple):
    """A measure of the table: its title, what it is multiplied by, its format and what is shown of its spread."""

    measure: str
    title: str
    factor: float
    form: str
    spread: bool = True


COLUMNS = (
    Column("zero_one", "0/1 %", 100.0, ".2f"),
    Column("mae", "MAE %", 100.0, ".2f"),
    Column("mae_median", "MAE % of median", 100.0, ".2f"),
    Column("zero_one_own", "own 0/1", 100.0, ".2f", spread=False),
    Column("mae_own", "own MAE", 100.0, ".2f", spread=False),
    Column("log_loss", "log-loss", 1.0, ".3f"),
    Column("rps", "RPS", 1.0, ".4f"),
    Column("cpu_seconds", "CPU s", 1.0, ".2f", spread=False),
)

Row = dict[str, Any]


def model(name: str) -> OrdinalFitPredict:
    """The function behind a name; ours is imported only when it is asked for."""
    if name in OURS:
        import _ordinal_ours

        ours: OrdinalFitPredict = getattr(_ordinal_ours, OURS[name])
        return ours
    return RIVALS[name]


# ------------------------------------------------------------------------------- store
class Store:
    """Rows by cell, model and partition, and the file that keeps them."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[tuple[str, str, int], Row] = {}
        self.written = time.monotonic()
        if path is not None and path.exists():
            self.rows = {(row["cell"], row["model"], row["partition"]): row for row in json.loads(path.read_text())}

    def holds(self, cell: str, name: str, partition: int, params: Row) -> bool:
        """Whether this is there, with these parameters."""
        row = self.rows.get((cell, name, partition))
        return row is not None and row["params"] == params

    def add(self, row: Row) -> None:
        """Keep a row; the file follows every `PATIENCE` seconds."""
        self.rows[row["cell"], row["model"], row["partition"]] = row
        if time.monotonic() - self.written > PATIENCE:
            self.write()

    def write(self) -> None:
        """Write the file whole, so that a run that is killed leaves the last one."""
        self.written = time.monotonic()
        if self.path is not None:
            beside = self.path.with_suffix(".part")
            beside.write_text(json.dumps(list(self.rows.values()), indent=1) + "\n")
            beside.replace(self.path)

    def of(self, cell: str, name: str) -> list[Row]:
        """Rows of a cell and a model, by partition."""
        return [self.rows[cell, name, k] for k in range(N_PARTITIONS) if (cell, name, k) in self.rows]

    def mean(self, cell: str, name: str, measure: str) -> float:
        """Mean over the partitions that are there; nan if none is."""
        values = [row[measure] for row in self.of(cell, name)]
        return statistics.fmean(values) if values else math.nan

    @property
    def models(self) -> list[str]:
        """Models with rows, ours first."""
        there = {name for _, name, _ in self.rows}
        return [name for name in [*OURS, *RIVALS] if name in there]


def run(store: Store, cell: str, name: str, params: Row, partitions: list[int]) -> None:
    """Fit what the store has not got."""
    for split in load(cell, [k for k in partitions if not store.holds(cell, name, k, params)]):
        try:
            said = model(name)(split, params)
        except NotApplicableError as reason:
            print(f"# {cell} {split.number}: {name} skipped: {reason}", file=sys.stderr, flush=True)
            continue
        row = {"cell": cell, "model": name, "partition": split.number, "params": params}
        row |= asdict(score(split, said)) | {"cpu_seconds": said.cpu_seconds, "chosen": said.chosen}
        row["has_own"] = said.own is not None
        store.add(row)
        print(f"# {cell} {name} {split.number}: {said.cpu_seconds:.2f} s {said.chosen}", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------- table
def spread(values: list[float], form: str) -> str:
    """Mean ± standard deviation (standard error)."""
    sd = statistics.stdev(values) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):{form}} ± {sd:{form}} ({sd / math.sqrt(len(values)):{form}})"


def width(column: Column) -> int:
    return 23 if column.spread else 8


HEADER = f"{'model':10} {'n':>3} " + " ".join(f"{c.title:>{width(c)}}" for c in COLUMNS)


def line(name: str, rows: list[Row]) -> str:
    """One model of a cell."""
    cells = []
    for column in COLUMNS:
        values = [column.factor * row[column.measure] for row in rows]
        text = spread(values, column.form) if column.spread else f"{statistics.fmean(values):{column.form}}"
        if column.measure.endswith("_own") and not rows[0]["has_own"]:
            text = "-"
        cells.append(f"{text:>{width(column)}}")
    return f"{name:10} {len(rows):3d} " + " ".join(cells)


def block(store: Store, cell: str) -> str:
    """The paper's figures of a cell and then all models'."""
    lines = [f"\n{cell}", HEADER]
    for method, printed in PRINTED[cell].items():
        figures = (f"{mean:.2f} ± {sd:.2f} ({sd / math.sqrt(N_PARTITIONS):.2f})" for mean, sd in printed)
        lines.append(f"{'[' + method + ']':10} {N_PARTITIONS:3d} " + " ".join(f"{text:>23}" for text in figures))
    lines += [line(name, rows) for name in store.models if (rows := store.of(cell, name))]
    return "\n".join(lines)


# ----------------------------------------------------------------------------- verdicts
def paired(store: Store, cell: str, ours: str, rival: str, measure: str) -> tuple[float, float] | None:
    """Mean of ours minus the rival's over the partitions that both have, and its standard error."""
    # The majority class is a mode, also where it is no median.
    theirs = "mae" if (rival, measure) == ("constant", "mae_median") else measure
    rows = {row["partition"]: row for row in store.of(cell, rival)}
    gaps = [row[measure] - rows[row["partition"]][theirs] for row in store.of(cell, ours) if row["partition"] in rows]
    if len(gaps) < 2:
        return None
    return statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))


def against_rival(store: Store, ours: str, rival: str, measure: str) -> str:
    """In how many cells ours is better, and in which it is worse by more than one standard error."""
    found = {cell: gap for cell in CELLS if (gap := paired(store, cell, ours, rival, measure)) is not None}
    better = sum(gap < 0.0 for gap, _ in found.values())
    clearly = sum(gap < -se for gap, se in found.values())
    worse = [cell for cell, (gap, se) in found.items() if gap > se]
    return f"better in {better} of {len(found)} ({clearly} by > 1 se), worse by > 1 se: {', '.join(worse) or 'nowhere'}"


def against_printed(store: Store, ours: str, measure: str) -> str:
    """The same against the best of the printed figures, in the cells that carry signal."""
    there, better, worse = 0, 0, []
    for cell in CELLS:
        values = [100.0 * row[measure] for row in store.of(cell, ours)]
        if cell in WITHOUT_SIGNAL or len(values) < 2:
            continue
        best = min(getattr(p, "zero_one" if measure == "zero_one" else "mae")[0] for p in PRINTED[cell].values())
        gap, se = statistics.fmean(values) - best, statistics.stdev(values) / math.sqrt(len(values))
        there, better = there + 1, better + (gap < 0.0)
        worse += [f"{cell} ({gap / se:+.1f} se)"] if gap > se else []
    return f"better in {better} of {there}, worse by > 1 se: {', '.join(worse) or 'nowhere'}"


def verdicts(store: Store) -> str:
    """What issue 4 asks, of every model of ours; and the best rival of each cell."""
    rivals = [name for name in store.models if name not in OURS]
    lines = [f"\n{'best rival':16} {'log-loss':20} {'RPS':20} {'0/1':20} {'MAE of median':20}"]
    for cell in CELLS:
        # A model that is half through would be compared on other partitions.
        counts = {name: len(store.of(cell, name)) for name in rivals if name != YARDSTICK}
        names = [name for name, n in counts.items() if n and n == max(counts.values())]
        best = []
        for measure in ("log_loss", "rps", "zero_one", "mae_median") if names else ():
            value, name = min((store.mean(cell, name, measure), name) for name in names)
            best.append(f"{name} {value:.4f}")
        if best:
            lines.append(f"{cell:16} " + " ".join(f"{text:20}" for text in best))
    for ours in [name for name in store.models if name in OURS]:
        printed = (
            f"  {m:11} to the best printed: {against_printed(store, ours, m)}" for m in ("zero_one", "mae_median")
        )
        lines += [f"\n{ours}", *printed]
        for rival in rivals:
            measures = ("zero_one", "mae_median") if rival == "constant" else ("log_loss", "rps")
            lines += [f"  {m:11} to {rival}: {against_rival(store, ours, rival, m)}" for m in measures]
    return "\n".join(lines)


# -------------------------------------------------------------------------------- main
def run_tables(options: argparse.Namespace) -> None:
    """Run what is missing, print all, write the file."""
    store = Store(options.out)
    if not options.table:
        warm(options.models)
    for cell in options.cells:
        for name in () if options.table else options.models:
            run(store, cell, name, options.ours if name in OURS else {}, options.folds)
        store.write()
        print(block(store, cell), flush=True)
    print(verdicts(store))


def run_speed(options: argparse.Namespace) -> None:
    """CPU seconds of one fit at each size, and their ratio to plain EP's."""
    warm(options.models)
    names = dict.fromkeys([YARDSTICK, *options.models])
    print(f"{'cell':17} {'n':>5} {'model':10} {'CPU s':>8} {YARDSTICK + ' / it':>14}")
    for cell in SPEED:
        (split,) = load(cell, [0])
        yardstick = math.nan
        for name in names:
            seconds = model(name)(split, options.ours if name in OURS else {}).cpu_seconds
            yardstick = seconds if name == YARDSTICK else yardstick
            ratio = yardstick / max(seconds, 1e-9)
            print(f"{cell:17} {split.train_y.size:5d} {name:10} {seconds:8.2f} {ratio:14.2f}", flush=True)


def warm(names: list[str]) -> None:
    """Load (or compile) what numba compiles, before a clock starts."""
    if OURS.keys() & set(names):
        import _ordinal_ours

        _ordinal_ours.warm()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", default="all", help=f"comma-separated, or all: {', '.join(CELLS)}")
    parser.add_argument("--folds", default=None, help="partitions, e.g. 0,4,8,12; default: all 20")
    parser.add_argument("--models", default=",".join([*OURS, *RIVALS]))
    parser.add_argument("--ours", default="{}", help="JSON object of parameters of ours")
    parser.add_argument("--out", type=Path, default=None, help="JSON file of every split; a second run goes on")
    parser.add_argument("--table", action="store_true", help="print what --out holds, run nothing")
    parser.add_argument("--speed", action="store_true", help="CPU seconds at n = 300, 600 and 1000 instead")
    options = parser.parse_args(arguments)
    options.cells = list(CELLS) if options.cells == "all" else options.cells.split(",")
    options.models, options.ours = options.models.split(","), json.loads(options.ours)
    options.folds = list(range(N_PARTITIONS)) if options.folds is None else [int(f) for f in options.folds.split(",")]
    known = {*OURS, *RIVALS}
    if unknown := [name for name in options.models if name not in known]:
        parser.error(f"--models: got {unknown}, wanted some of {sorted(known)}")
    if unknown := [name for name in options.cells if name not in CELLS]:
        parser.error(f"--cells: got {unknown}, wanted some of {', '.join(CELLS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; 0 when all went through."""
    options = parsed(arguments)
    with threadpool_limits(limits=1):
        (run_speed if options.speed else run_tables)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
