"""
More comparisons than memory holds
==================================

The same estimator can learn from a folder of Parquet files, reading a part at a time, or on a Dask cluster. The result
is the same as in memory. The 300,000 comparisons of this example are few enough to compare all three ways.
"""

# %%
# Each file has the names of two items and who won. The data are simulated, so the truth is known.
import tempfile
import time
from pathlib import Path

import dask.dataframe
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

from skpref import GPPLClassifier

rng = np.random.default_rng(0)
names = np.array([f"item {number:03d}" for number in range(200)])
truth = rng.normal(size=names.size)
folder = Path(tempfile.mkdtemp()) / "comparisons"
folder.mkdir()
for part in range(3):
    left = rng.integers(names.size, size=100_000)
    right = (left + rng.integers(1, names.size, size=left.size)) % names.size
    won = truth[left] - truth[right] + rng.normal(size=left.size) > 0.0
    pd.DataFrame({"left": names[left], "right": names[right], "y": won}).to_parquet(
        folder / f"part-{part}.parquet"
    )
sorted(path.name for path in folder.iterdir())

# %%
# Pass the path in place of the table. The columns are ``left``, ``right`` and ``y``, unless you name others.
began = time.perf_counter()
from_files = GPPLClassifier().fit(str(folder))
print(f"files:  {time.perf_counter() - began:.1f} s")
frame = pd.read_parquet(folder)
began = time.perf_counter()
in_memory = GPPLClassifier().fit(frame[["left", "right"]], frame["y"])
print(f"memory: {time.perf_counter() - began:.1f} s")
difference = np.abs(from_files.utility(names) - in_memory.utility(names)).max()
print(f"largest difference of the utilities: {difference:.1e}")

# %%
# On a cluster, pass a collection of Dask. The cluster of this example is two threads of one machine.
# ``Client("scheduler:8786")`` connects to a real one. The fitted model is an ordinary one, to save or to serve.
with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
    rows = dask.dataframe.read_parquet(folder)
    model = GPPLClassifier().fit(rows[["left", "right"]], rows["y"])
difference = np.abs(model.utility(names) - in_memory.utility(names)).max()
print(f"largest difference of the utilities: {difference:.1e}")

# %%
# Learnt and true utilities, both relative to their average. The bars are 90 % intervals.
utility, std = model.utility(names, return_std=True)
true = truth - truth.mean()
fig, ax = plt.subplots(figsize=(5, 4.6), layout="constrained")
ax.errorbar(true, utility, yerr=1.645 * std, fmt=".", color="#1f6fb4", ecolor="#9dc3e6")
ax.axline((0.0, 0.0), slope=1.0, color="grey", linewidth=0.8)
inside = np.mean(np.abs(utility - true) <= 1.645 * std)
ax.set(
    xlabel="true utility",
    ylabel="learnt utility",
    title=f"{inside:.0%} of the intervals contain the truth",
)
plt.show()

# %%
# **Next:** :ref:`scale` says what runs where, how fast, and with how much memory.
