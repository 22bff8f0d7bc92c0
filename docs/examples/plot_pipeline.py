"""
Pipeline, hyperparameter search and experiment tracking
=======================================================

The estimators work with scikit-learn's tools: scale features in a pipeline, compare models by cross-validation, tune
hyperparameters with Optuna, and track every fit in MLflow. The data are real: how far diabetes had progressed in 442
patients a year after ten measurements (Efron et al., 2004; they come with scikit-learn).
"""

# %%
# A pipeline of a scaler and a Gaussian process regression is one estimator, also for `cross_val_score`.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import mlflow
import numpy as np
import optuna
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import SVGPRegressor
from skpref.search import OptunaSearch
from skpref.tracking import MLflowCallback

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
model = make_pipeline(StandardScaler(), SVGPRegressor(inducing=40, random_state=0))
rivals = {
    "ridge regression": RidgeCV(),
    "gradient boosting": HistGradientBoostingRegressor(random_state=0),
}
for name, estimator in {**rivals, "SVGPRegressor": model}.items():
    error = -cross_val_score(
        estimator, X_train, y_train, scoring="neg_root_mean_squared_error", cv=5
    )
    print(f"{name:18s} RMSE {error.mean():.1f} ± {error.std() / np.sqrt(error.size):.1f}")

# %%
# Search for settings that have no gradient, such as the likelihood. `GridSearchCV` takes parameters of the last step by
# their long name. The callback logs every fit as a run in MLflow: here in a temporary folder, by default in ``mlruns``.
optuna.logging.set_verbosity(optuna.logging.WARNING)
folder = Path(tempfile.mkdtemp())
client = mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db")
client.create_experiment("diabetes", artifact_location=(folder / "artifacts").as_uri())
track = MLflowCallback("diabetes", tracking_uri=client.tracking_uri)
grid = {"svgpregressor__likelihood": ["gaussian", "student-t"]}
search = GridSearchCV(model, grid, cv=3).set_callbacks(track).fit(X_train, y_train)
search.best_params_

# %%
# `OptunaSearch` has a default search space: see :func:`skpref.search.default_space`. Poor trials are stopped early.
# Length-scales are learnt in each fit, by gradients, so they are not in the space.
search = (
    OptunaSearch(model, n_trials=8, cv=3, random_state=0)
    .set_callbacks(track)
    .fit(X_train, y_train)
)
search.best_params_

# %%
# The searches, their trials and the fits of the folds are all in the store. ``mlflow ui`` shows them in a browser.
runs = client.search_runs(["1"], max_results=1000)
print(f"{len(runs)} runs; look at yours with:")
print("mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db")

# %%
# Predictions of the best model for patients of the test set, with 90 % intervals.
mean, std = search.best_estimator_.predict(X_test, return_std=True)
low, high = mean - 1.645 * std, mean + 1.645 * std
order, inside = np.argsort(mean), (low <= y_test) & (y_test <= high)
fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.fill_between(
    np.arange(order.size),
    low[order],
    high[order],
    color="#1f6fb4",
    alpha=0.25,
    label="90 % interval",
)
ax.plot(mean[order], color="#1f6fb4", label="prediction")
ax.scatter(
    np.arange(order.size),
    y_test.iloc[order],
    s=10,
    c=np.where(inside.iloc[order], "black", "#d1495b"),
)
ax.set(
    xlabel="patients, by prediction",
    ylabel="progression",
    title=f"{inside.mean():.0%} of the answers are inside",
)
ax.legend(loc="upper left", frameon=False)
plt.show()

# %%
# This is how ``mlflow ui`` shows a search: its trials, the fits of each fold, and trials that were pruned. The picture
# is of another search, for :class:`~skpref.GibbsM3F`.
#
# .. figure:: /_static/mlflow_runs.png
#    :alt: MLflow's table of runs, with scores and hyperparameters
#    :align: center
#    :width: 100%

# %%
# **Next:** :ref:`searching` on folds of users, stopping and resuming; :ref:`tracking` on what is in a run;
# :ref:`sphx_glr_auto_examples_plot_regression.py` on intervals and outliers.
