"""Do the capabilities of `CrowdGPPL` compose? Each one alone, in pairs and in triples: fitted, active and right.

::

    python benchmarks/compose.py                       # 14 capabilities alone and 91 pairs
    python benchmarks/compose.py --one-view            # 12 of `GPPLClassifier` and 66 pairs, in crowds of one taste
    python benchmarks/compose.py --triples             # and the 35 triples of those that an arena needs
    python benchmarks/compose.py --only groups --seeds 5
    python benchmarks/compose.py --only "covariates + order,ties + users"

One simulator draws crowds with any subset of capabilities from the model that they stand for: a consensus and tastes
(smooth in the features of items, if there are any), differences of groups, slopes on a number of context, effects of
users' features, reliabilities, covariates, position biases and thresholds of ties of each judge, and a consensus that
walks over a year. A case is

- *fitted* if nothing refuses it,
- *active* if each capability shows in the fitted model: effects that are not 0, columns of `annotators()`, all answers
  counted; a fit that was interrupted in its third pass and resumes must end with the posterior of one that was not,
- *right* if 90 % intervals hold the truth, pooled over the seeds, and effects are within 2 standard errors of it in
  95 %. Shares may differ from .90 and .95 by two binomial standard errors plus 4 points.

Coverage is of: the consensus (in each group and context, at the end), relative to its mean; z, the difference of
utilities with all effects, of rows that were held out; and where there are any, of items that nobody compared ("new
items"), z of users without answers ("new users"), and each judge's bias, threshold of ties and reliability. "!" marks
what is not right.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skpref import Checkpoint, CrowdGPPL, GPPLClassifier, Table
from skpref.kernels import ProductMatern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

CAPABILITIES = (
    *("features", "covariates", "order", "ties", "groups", "reliability", "users"),
    *("many items", "files", "dask", "partial_fit", "resume", "time", "context"),
)
OF_USERS = "reliability", "users"  # capabilities that `GPPLClassifier` does not have
OF_TRIPLES = "covariates", "order", "ties", "groups", "reliability", "users", "files"
PASS = 3  # in which fits are interrupted
N_NEW_USERS, N_NEW_ITEMS = 40, 5
# Rows that are held out of each user: errors of more are so alike that the binomial standard error would be too small.
N_HELD_OUT = 2
EFFECTS = np.array([0.4, -0.3])  # of the covariates
BIAS, BIAS_SPREAD = 0.4, 0.4
THRESHOLD, THRESHOLD_SPREAD = 0.5, 0.3  # median, and standard deviation of the logarithm
RELIABILITY_SPREAD = 0.5  # standard deviation of the logarithm
TASTE, GROUP, USER_FEATURE = 0.5, 0.7, 0.5  # factors on functions of variance 1
N_DAYS, WALK = 365, 0.7  # and standard deviation of the walk over these days
SLOPE, CONTEXTS = 0.5, (0.0, 1.5)  # standard deviation of slopes, and numbers of which the consensus is checked
GROUPS = np.array(["chat", "code", "maths"])
IDS: dict[str, Any] = {"user": "user", "left": "left", "right": "right"}


class InterruptionError(Exception):
    """The end of a fit before its time."""


# ---------------------------------------------------------------------------------------------------------- simulation
@dataclass(frozen=True)
class Crowd:
    """What is asked of a crowd, and the truth."""

    answers: pd.DataFrame
    held_out: pd.DataFrame  # with the true "z"
    of_new_users: pd.DataFrame  # likewise
    items: Table | None
    users: Table | None
    consensus: FloatArray  # (n_groups, n_items), the new items last
    slopes: FloatArray  # (n_items,)
    judges: pd.DataFrame  # bias, tie_threshold and reliability by user


def simulate(parts: frozenset[str], rng: np.random.Generator, *, one_view: bool = False) -> Crowd:
    """Draw a crowd with some capabilities, perhaps of people who are all alike."""
    # Files and Dask take another way above 10,000 answers.
    n_known, n_answers = (300, 40) if parts & {"files", "dask"} else (40, 80 if "groups" in parts else 25)
    n_known, n_answers = (n_known, n_answers) if "many items" not in parts else (max(n_known, 60), 60)
    n_seen, n_users = 600 if "many items" in parts else 15, n_known + N_NEW_USERS
    n_items = n_seen + N_NEW_ITEMS * ("features" in parts)
    of_items, of_users = rng.standard_normal((n_items, 2)), rng.standard_normal((n_users, 2))
    of_users -= of_users[:n_known].mean(axis=0)  # the consensus is of an average user
    K = ProductMatern([2.0, 2.0])(of_items) if "features" in parts else np.zeros((n_items, n_items))
    chol = np.linalg.cholesky(K + 1e-8 * np.eye(n_items)) if "features" in parts else np.eye(n_items)
    t, V, B = (chol @ rng.standard_normal((n_items, k)) for k in (1, 2, 2))
    n_groups = GROUPS.size if "groups" in parts else 1
    consensus = t.T + GROUP * ("groups" in parts) * (chol @ rng.standard_normal((n_items, n_groups))).T
    spread = 0.0 if one_view else 1.0
    own = spread * TASTE * rng.standard_normal((n_users, 2)) @ V.T + USER_FEATURE * ("users" in parts) * of_users @ B.T
    noise = (
        spread * rng.standard_normal((3, n_users)) * np.array([[k in parts] for k in ("reliability", "order", "ties")])
    )
    rho = np.exp(RELIABILITY_SPREAD * noise[0] - 0.5 * RELIABILITY_SPREAD**2 * ("reliability" in parts))  # mean 1
    bias = ("order" in parts) * BIAS + BIAS_SPREAD * noise[1]
    threshold = ("ties" in parts) * THRESHOLD * np.exp(THRESHOLD_SPREAD * noise[2])
    f = rho[:, None, None] * consensus + own[:, None]  # (n_users, n_groups, n_items)
    steps = chol @ rng.standard_normal((n_items, N_DAYS)) if "time" in parts else np.zeros((n_items, N_DAYS))
    walk = np.cumsum(WALK / np.sqrt(N_DAYS) * steps, axis=1)
    slopes = SLOPE * ("context" in parts) * (chol @ rng.standard_normal(n_items))

    def ask(user: NDArray[np.int64]) -> pd.DataFrame:
        left, group = rng.integers(0, n_seen, user.size), rng.integers(0, n_groups, user.size)
        right = (left + rng.integers(1, n_seen, user.size)) % n_seen
        C = np.column_stack([rng.standard_normal(user.size), rng.choice([-1.0, 0.0, 1.0], user.size)])
        z = f[user, group, left] - f[user, group, right] + bias[user] + ("covariates" in parts) * C @ EFFECTS
        day = rng.integers(0, N_DAYS, user.size) if "time" in parts else np.zeros(user.size, dtype=np.int64)
        size = rng.standard_normal(user.size)
        z += rho[user] * (walk[left, day] - walk[right, day] + size * (slopes[left] - slopes[right]))
        noisy = z + rng.standard_normal(user.size)
        y = np.where(np.abs(noisy) < threshold[user], 0.5, noisy > 0.0)
        ids = {"user": user_ids[user], "left": item_ids[left], "right": item_ids[right]}
        more = {"category": GROUPS[group], "length": C[:, 0], "home": C[:, 1], "day": day, "size": size}
        return pd.DataFrame(ids | more | {"y": y, "z": z})

    user_ids = np.array([f"judge {u:03d}" for u in range(n_users)])
    item_ids = np.array([f"item {i:03d}" for i in range(n_items)])
    shared = f[:n_known, :, :n_seen].mean(axis=0)
    shared -= shared.mean(axis=1, keepdims=True)
    slope = np.einsum("ugi,gi->u", f[:, :, :n_seen], shared) / np.sum(shared**2)
    judges = pd.DataFrame({"bias": bias, "tie_threshold": threshold, "reliability": slope}, index=user_ids)
    return Crowd(
        ask(rng.permutation(np.repeat(np.arange(n_known), n_answers))).drop(columns="z"),
        ask(np.repeat(np.arange(n_known), N_HELD_OUT)),
        ask(np.repeat(np.arange(n_known, n_users), N_HELD_OUT)),
        Table(of_items, ids=item_ids) if "features" in parts else None,
        Table(of_users, ids=user_ids) if "users" in parts else None,
        consensus + walk[:, -1],
        slopes,
        judges,
    )


# ---------------------------------------------------------------------------------------------------------------- fits
class Interruption:
    """A callback that ends a fit."""

    def setup(self, estimator: Any, context: Any) -> None:  # noqa: ANN401 - scikit-learn's protocol
        """Do nothing."""

    teardown = on_fit_task_begin = on_fit_task_end = setup

    def on_iteration(self, estimator: Any, context: Any, iteration: Any) -> bool:  # noqa: ANN401, ARG002
        """Raise in the third pass."""
        if iteration.step == PASS:
            raise InterruptionError
        return False


def fitted(
    parts: frozenset[str], crowd: Crowd, folder: Path, *, one_view: bool, interrupted: bool = False
) -> CrowdGPPL | GPPLClassifier:
    """Fit a model with some capabilities."""
    options: dict[str, Any] = {
        "order_effect": "order" in parts,
        "covariates": ["length", "home"] if "covariates" in parts else None,
        "groups": ["category"] if "groups" in parts else None,
        "context": ["size"] if "context" in parts else None,
        "time": "day" if "time" in parts else None,
        "checkpoint": Checkpoint(folder / "checkpoint", 0.0) if interrupted else None,
        "random_state": 0,
    }
    model: Any = CrowdGPPL(crowd.items, crowd.users, **options, **IDS)
    if one_view:
        model = GPPLClassifier(crowd.items, left="left", right="right", **options)
    rows = crowd.answers
    later = np.zeros(len(rows), dtype=bool)
    if "partial_fit" in parts:  # the second half of the answers, and all of some users
        later = (np.arange(len(rows)) >= len(rows) // 2) | (rows["user"] < "judge 003").to_numpy()
    X, y = _source(rows[~later], parts, folder)
    if interrupted:
        with suppress(InterruptionError):
            model.set_callbacks(Interruption()).fit(X, y)
        assert (folder / "checkpoint").exists()  # noqa: S101 - otherwise nothing is resumed
        model.set_callbacks()
    model.fit(X, y)
    return model.partial_fit(rows[later].drop(columns="y"), rows["y"][later]) if later.any() else model


def _source(rows: pd.DataFrame, parts: frozenset[str], folder: Path) -> tuple[Any, Any]:
    """Return X and y where the capabilities want them."""
    if not parts & {"files", "dask"}:
        return rows.drop(columns="y"), rows["y"]
    path = folder / "answers"
    path.mkdir(exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
        rows.iloc[part].to_parquet(path / f"{k}.parquet", index=False)
    if "dask" not in parts:
        return path, "y"
    from dask import dataframe

    return dataframe.read_parquet(path) if "files" in parts else dataframe.from_pandas(rows, npartitions=3), "y"


# -------------------------------------------------------------------------------------------------------------- checks
@dataclass
class Result:
    """What the fits of a case show, over the seeds."""

    refusal: str = ""
    inactive: set[str] = field(default_factory=set)
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)  # of each quantity: covered, intervals
    seconds: float = 0.0

    def add(self, counts: Iterable[tuple[str, NDArray[np.int64]]]) -> None:
        """Pool more counts."""
        for name, count in counts:
            self.counts[name] = self.counts.get(name, np.zeros(2, dtype=np.int64)) + count

    def cover(self, name: str, truth: FloatArray, mean: FloatArray, std: FloatArray) -> None:
        """Count the truths in intervals of 90 %, or effects within two standard errors."""
        holds = np.abs(truth - mean) <= (2.0 if name == "effects" else 1.6449) * std
        self.add([(name, np.array([holds.sum(), holds.size]))])

    def is_right(self, name: str) -> bool:
        """Tell whether a share is what it should be."""
        covered, n = self.counts[name].tolist()
        share = 0.95 if name == "effects" else 0.9
        return bool(abs(covered / n - share) <= 2.0 * np.sqrt(share * (1.0 - share) / n) + 0.04)

    def wrong(self) -> list[str]:
        """Return the quantities that are not right."""
        return [name for name in self.counts if not self.is_right(name)]

    def passes(self) -> bool:
        """Tell whether all is well."""
        return not (self.refusal or self.inactive or self.wrong())

    def shares(self) -> str:
        """Return the coverage of each quantity, in %, and the number of effects that are right."""
        parts = []
        for name, (covered, n) in self.counts.items():
            share = f"{covered}/{n}" if name == "effects" else f"{100.0 * covered / n:.0f}"
            parts.append(f"{name} {share}{'' if self.is_right(name) else '!'}")
        return ", ".join(parts)


def check(parts: frozenset[str], crowd: Crowd, model: Any, result: Result) -> None:  # noqa: ANN401 - of two classes
    """Count what is right in a fitted model, and note what is not active."""
    items, is_crowd = model.item_ids_, isinstance(model, CrowdGPPL)
    report = model.annotators(n_samples=100) if is_crowd else pd.DataFrame()
    judges = crowd.judges.loc[model.user_ids_ if is_crowd else []]
    seen = np.array([int(i.split()[1]) for i in items])
    new = np.array([f"item {crowd.consensus.shape[1] - k:03d}" for k in range(N_NEW_ITEMS, 0, -1)])
    contexts = CONTEXTS if "context" in parts else CONTEXTS[:1]
    for (truth, group), number in product(zip(crowd.consensus, GROUPS, strict=False), contexts):
        where = {"groups": {"category": group}} if "groups" in parts else {}
        where |= {"context": {"size": number}} if "context" in parts else {}
        truth = truth + number * crowd.slopes  # noqa: PLW2901
        truth = truth - truth[seen].mean()  # noqa: PLW2901
        result.cover("consensus", truth[seen], *model.utility(items, return_std=True, **where))
        if "features" in parts:
            result.cover("new items", truth[-N_NEW_ITEMS:], *model.utility(new, return_std=True, **where))
    for name, rows in (("z", crowd.held_out), ("new users", crowd.of_new_users)):
        if name == "z" or "users" in parts:
            mean, variance = model.latent_mean_and_variance(rows.drop(columns=["y", "z"]))
            result.cover(name, rows["z"].to_numpy(), mean, np.sqrt(variance))
    if "covariates" in parts:
        result.cover("effects", EFFECTS, model.coef_, model.coef_std_)
    if "order" in parts:
        result.cover("effects", np.array([BIAS]), *(np.array([value]) for value in model.order_effect_))
    for part, column in (("order", "bias"), ("ties", "tie_threshold"), ("reliability", "reliability")):
        if part in parts and column in report:
            low, high = report[f"{column}_low"].to_numpy(), report[f"{column}_high"].to_numpy()
            holds = (judges[column].to_numpy() >= low) & (judges[column].to_numpy() <= high)
            result.add([(column, np.array([holds.sum(), holds.size]))])
    n_read = report["n_labels"].sum() if is_crowd else model.rank(n_samples=1).n_comparisons.sum() / 2
    all_read = np.isclose(n_read, len(crowd.answers))
    user_rows = crowd.of_new_users["user"].unique()
    shows: dict[str, Callable[[], Any]] = {
        "features": lambda: model.kernel_ is not None and np.ptp(model.utility(new)) > 0.0,
        "covariates": lambda: model.coef_.size == EFFECTS.size and bool(model.coef_.all()),
        "order": lambda: model.order_effect_[0] != 0.0 and (not is_crowd or np.ptp(report["bias"]) > 0.0),
        "ties": lambda: not is_crowd or (model.tie_thresholds_ is not None and np.ptp(model.tie_thresholds_) > 0.0),
        "groups": lambda: len(model.group_ids_[0]) == GROUPS.size and model.group_scales_[0] > 0.01,
        "context": lambda: model.context_scales_[0] > 0.01,
        "reliability": lambda: "reliability" in report and np.ptp(report["reliability"]) > 0.0,
        "time": lambda: model.dynamics_.drift_sd + model.dynamics_.form_sd > 0.01,
        "users": lambda: np.ptp(model.utility(items, users=user_rows), axis=0).max() > 0.0,
        "many items": lambda: items.size > 500,
        "partial_fit": lambda: all_read and (not is_crowd or crowd.answers["user"].nunique() == len(model.user_ids_)),
    }
    result.inactive |= {part for part in parts if not (shows[part]() if part in shows else all_read)}


def measure(parts: frozenset[str], seeds: Iterable[list[int]], *, one_view: bool) -> Result:
    """Simulate, fit and check."""
    result, start, n = Result(), time.process_time(), 0
    for seed in seeds:
        crowd = simulate(parts, np.random.default_rng(seed), one_view=one_view)
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = fitted(parts, crowd, Path(name), one_view=one_view, interrupted="resume" in parts)
                check(parts, crowd, model, result)
                if "resume" in parts:
                    whole = fitted(parts, crowd, Path(name), one_view=one_view)
                    pairs = zip(*(m.utility(return_std=True) for m in (model, whole)), strict=True)
                    result.inactive |= set() if all(np.allclose(a, b, atol=1e-8) for a, b in pairs) else {"resume"}
            except Exception as error:  # noqa: BLE001 - any error is a capability that does not compose
                kind = "refused" if isinstance(error, ValueError) else f"error: {type(error).__name__}"
                result.refusal = f"{kind}: {' '.join(str(error).split()[:18])}"
                break
        n += 1
    result.seconds = (time.process_time() - start) / max(n, 1)
    return result


# --------------------------------------------------------------------------------------------------------------- table
def line(name: str, result: Result) -> str:
    """Return a line of the table."""
    if result.refusal:
        return f"{name:40s} {result.refusal}"
    active = f"not active: {', '.join(sorted(result.inactive))}; " if result.inactive else "active; "
    verdict = "right" if result.passes() else "NOT RIGHT"
    return f"{name:40s} {verdict:9s} {result.seconds:6.2f} s  {active}{result.shares()}"


def summarise(results: dict[frozenset[str], Result]) -> None:
    """Print pooled coverage of each capability, and how many cases pass."""
    print("\nPooled over the cases that were fitted, by capability:")
    for part in dict.fromkeys(part for case in results for part in CAPABILITIES if part in case):
        pooled = Result()
        of_part = [result for parts, result in results.items() if part in parts and not result.refusal]
        for result in of_part:
            pooled.add(result.counts.items())
        print(f"{part:12s} {len(of_part):3d} cases  {pooled.shares()}")
    small = [result.passes() for parts, result in results.items() if len(parts) < 3]
    triples = [result.passes() for parts, result in results.items() if len(parts) == 3]
    print(f"\n{sum(small)} of {len(small)} fitted, active and right; {sum(triples)} of {len(triples)} triples")


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains one of these texts, between commas")
    parser.add_argument("--seeds", type=int, default=3, help="crowds of each case")
    parser.add_argument("--triples", action="store_true", help="triples, too")
    parser.add_argument("--one-view", action="store_true", help="GPPLClassifier, of people who are all alike")
    options = parser.parse_args(arguments)
    known = [part for part in CAPABILITIES if not (options.one_view and part in OF_USERS)]
    cases = [*((part,) for part in known), *combinations(known, 2)]
    cases += [case for case in combinations(OF_TRIPLES, 3) if options.triples and {*case} <= {*known}]
    wanted = [(k, c) for k, c in enumerate(cases) if any(t in " + ".join(c) for t in options.only.split(","))]
    results = {}
    with cluster() if any("dask" in case for _, case in wanted) else nullcontext():
        for number, case in wanted:
            parts = frozenset(case)
            seeds = ([seed, number] for seed in range(options.seeds))
            results[parts] = measure(parts, seeds, one_view=options.one_view)
            print(line(" + ".join(case), results[parts]), flush=True)
    summarise(results)
    return 0


def cluster() -> Any:  # noqa: ANN401 - distributed has no types
    """Return a client of a cluster of one thread in this process, whose time is measured, too."""
    import dask
    from distributed import Client

    dask.config.set(scheduler="threads")
    return Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)


if __name__ == "__main__":
    raise SystemExit(main())
