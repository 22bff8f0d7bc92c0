"""
Comparisons in memory, in files, on a cluster
=============================================

A fit in memory is the simplest way, until the memory is full. With Parquet files or a Dask cluster, the same model can
be fitted to more data: time stays linear in the number of comparisons, and memory grows much more slowly.
"""

# %%
# The numbers are in a file next to this script. ``python benchmarks/scale.py files --where memory disk cluster --rows
# ... --out docs/examples/scale.json`` measures them again. Each point is one fit of :class:`~skpref.GPPLClassifier` to
# simulated comparisons of 100,000 items with string ids, from reading the file to the end of the third pass, on one
# core. The cluster has two workers of one core each, and their times are added. Memory is the peak of the whole
# process; on the cluster it is that of the larger worker.
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
        axis.plot(
            [row["rows"] for row in rows],
            values,
            color=colour,
            linestyle=line,
            marker="o",
            label=label,
        )
    axis.set(
        xlabel="comparisons",
        ylabel=title,
        xscale="log",
        yscale="log" if name == "CPU s" else "linear",
    )
    axis.set_ylim(bottom=1 if name == "CPU s" else 0)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)
plt.show()

# %%
# - **In memory** a comparison takes about 350 bytes, mostly while ids are encoded.
# - **Parquet files** take no longer, because pyarrow encodes the strings. Memory grows by 32 bytes for each item of
#   each million rows.
# - **A cluster** has an overhead for sending the posterior and for scheduling. Use it when one machine is too small or
#   too slow.

# %%
# **Next:** :ref:`scale` is the guide, and :ref:`sphx_glr_auto_examples_plot_files.py` runs all three ways.
