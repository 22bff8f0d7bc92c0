"""
From a CSV file to a leaderboard without Python
===============================================

The command ``skpref`` reads a table as it was downloaded and tunes a model. It tests the model on held-out rows, and
writes the leaderboard, plots and the model to a folder. The battles are simulated.
"""

# %%
# The file has two models, the winner, and the lengths of both answers.
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from skpref.datasets import make_arena

folder = Path(tempfile.mkdtemp())
battles = make_arena(n_battles=4_000, random_state=2).battles
pd.DataFrame(battles).to_csv(folder / "battles.csv", index=False)


def shell(command):
    """Run a command in the folder of the file and print what it prints."""
    program = [sys.executable, "-m", "skpref", *command.split()[1:]]
    options = {"cwd": folder, "capture_output": True, "text": True}
    done = subprocess.run(program, check=True, **options)  # noqa: S603
    print(f"$ {command}\n{done.stdout}")


print("".join((folder / "battles.csv").open().readlines()[:4]))

# %%
# One command. ``--covariates words_a-words_b`` learns what a longer answer is worth. The line ``Read:`` says which
# column was taken for what.
shell("skpref tune battles.csv --covariates words_a-words_b --trials 6 --no-mlflow")

# %%
# The leaderboard is in a CSV file and in a picture.
fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.imshow(plt.imread(folder / "skpref-out" / "ranking.png"))
ax.axis("off")
pd.read_csv(folder / "skpref-out" / "ranking.csv").round(2).head()

# %%
# The saved model predicts new battles, here for answers of the same length.
(folder / "next.csv").write_text("model_a,model_b\nAda,Bell\nJaynes,Ada\n")
shell("skpref predict skpref-out/model.skpref next.csv")

# %%
# **Next:** :ref:`command-line` has all commands and file formats. ``skpref demo`` does the same on your own machine.
