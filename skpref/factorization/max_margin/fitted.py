"""All that the chains of max-margin factorization have learnt, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skpref._checks import check_types, require
from skpref.data.ratings import Ratings
from skpref.data.shards import RatingCounts
from skpref.factorization.max_margin.chains import check_chain
from skpref.factorization.max_margin.posterior import M3FPosterior, RatingVocabularies
from skpref.inference.gibbs import Chain

if TYPE_CHECKING:
    from skpref._typing import Array


@dataclass(frozen=True, eq=False)
class M3FFitted:
    """All that the chains have learnt; the attributes of the estimator are read from it."""

    posterior: M3FPosterior
    chains: list[Chain]  # without their tables, which the posterior holds
    vocabularies: RatingVocabularies
    ratings: Ratings | RatingCounts  # of all calls of fit, partial_fit and fold_in since the last fit
    risk: float  # of the averages, mean over chains
    distribution_key: str | None  # digest of what the chains sample; None after fold_in
    warm_start_key: str  # digest of what a fit must share with this one for a warm start

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        kept = RatingCounts if isinstance(self.ratings, RatingCounts) else Ratings
        check_types(self, posterior=M3FPosterior, vocabularies=RatingVocabularies, ratings=kept, chains=list)
        check_types(self, risk=float, distribution_key=str | None, warm_start_key=str)
        require(np.isfinite(self.risk), self, "risk", "must be finite")
        users, items, levels = self.vocabularies
        sizes, average = (users.size, items.size, levels.size), self.posterior.average
        n_chains = average.users.shape[0]
        tables = average.users.shape[1], average.items.shape[1], self.posterior.n_levels
        require(tables == sizes, self, "posterior", f"is of {tables} users, items and levels, expected {sizes}")
        rated = self.ratings.n_users, self.ratings.n_items, self.ratings.n_levels
        require(rated == sizes and self.ratings.size, self, "ratings", f"are of {rated} users, items and levels")
        whole = len(self.chains) == n_chains and all(isinstance(chain, Chain) for chain in self.chains)
        require(whole, self, "chains", f"must be {n_chains} chains")
        for chain in self.chains:
            check_chain(self, chain, self.posterior)

    def trace(self, name: str = "risk") -> Array:
        """Return what the sweeps of each chain reported, shape (n_chains, n_iter_); a running fit has fewer sweeps."""
        traces = [chain.trace[name] for chain in self.chains]
        return np.array([trace[: min(map(len, traces))] for trace in traces])

    @property
    def risks(self) -> Array:
        """Risks after burn-in, shape (n_chains, n_averaged)."""
        risks = self.trace()
        return risks[:, risks.shape[1] - self.chains[0].n_averaged :]

    @property
    def factors(self) -> tuple[Array, Array]:
        """Averages of users and items, chains side by side: the product is the mean over chains."""
        average = self.posterior.average
        users, items = (np.concatenate(list(table), axis=1) for table in (average.users, average.items))
        return users / len(self.chains), items

    @property
    def thresholds(self) -> Array:
        """Average thresholds of each user, shape (N, L - 1), or of all, shape (L - 1,)."""
        theta = self.posterior.average.thresholds.mean(axis=0)
        return theta if self.posterior.varsigma > 0.0 else np.asarray(theta[0])
