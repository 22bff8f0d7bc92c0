"""
Comparisons in memory, in files, on a cluster
=============================================

A fit in memory is the simplest, until the memory is full. Parquet files and collections of Dask take the same model
further: time stays linear in the comparisons, and memory grows much more slowly.
"""

# %%
# The figures are in a file next to this script, and are measured again by
# ``python benchmarks/scale.py files --where memory disk cluster --rows ... --out docs/examples/scale.json``. Each point
# is one fit of :class:`~skpref.GPPLClassifier` to simulated comparisons of 100,000 items with string ids, from reading
# the file to the end of the third pass, on one core; the cluster has two workers of one core each, whose times are
# added. Memory is the peak of the whole process, and on the cluster that of the larger worker.
import json
from pathlib import Path

import matplotlib.pyplot as plt

measured = json.loads(Path("scale.json").read_text("utf-8"))
STYLES = {
    "memory": ("in memory", "#e45756", "--"),
    "disk": ("Parquet files", "#4c78a8", "-"),
    "cluster": ("Dask, two workers", "#54a24b", "-"),
}
LIMITS = {"CPU s": "CPU seconds", "peak MB": "peak memory, GB"}

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for axis, (name, title) in zip(axes, LIMITS.items(), strict=True):
    for where, (label, colour, line) in STYLES.items():
        rows = [row for row in measured if row["where"] == where]
        values = [row[name] / (1000 if name == "peak MB" else 1) for row in rows]
        axis.plot([row["rows"] for row in rows], values, color=colour, linestyle=line, marker="o", label=label)
    axis.set(xlabel="comparisons", ylabel=title, xscale="log", yscale="log" if name == "CPU s" else "linear")
    axis.set_ylim(bottom=1 if name == "CPU s" else 0)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)
plt.show()

# %%
# - **In memory** a comparison takes about 350 bytes, most of them while ids are encoded.
# - **Parquet files** take no longer: strings are encoded by pyarrow, before Python sees them. What grows with the files
#   is what must be known of each million rows, 32 bytes for each of their items.
# - **A cluster** pays for moving the posterior and for its own bookkeeping, and is worth it from where one machine is
#   too small or too slow.
