"""`VariationalFM` and `VariationalFMClassifier`: factorization machines by variational inference ([VRK22])."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skpref._callbacks import fit_callbacks
from skpref._estimator import check_n_samples, unchanged_on_failure
from skpref._math.random import as_generator
from skpref.data.ids import shorten
from skpref.exceptions import DataError
from skpref.factorization.machine.base import CONSTRAINTS, Data, FMBase
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array

_LINKS = {"probit": PairwiseProbit(), "logit": PairwiseLogit()}
_CONSTANT = 1e-14  # spread of targets, relative to the largest, below which there is nothing but rounding


class VariationalFM(RegressorMixin, FMBase):
    """Bayesian factorization machine for regression.

    y(x) = w_0 + <w, x> + sum_(k<l) x_k x_l <v_k, v_l>, y ~ N(y(x), 1/alpha) ([VRK22] section III). All weights and
    factors have independent normal posteriors; the bound is maximised over them, over the priors of groups of features
    and over the noise. Everything is in closed form: see docs/maths section 9.

    Parameters
    ----------
    n_factors : int, default=5
        Width d of the factors. 0 leaves a linear model.
    groups : array-like of shape (n_features,), default=None
        Label of each feature's group; a group shares one prior of weights and one of each factor. None: the fields of
        a one-hot design (ranges of columns of which every row has exactly one), else one group.
    posterior : {"full", "factorised"}, default="full"
        Whether a feature's weight and factors have a covariance matrix or are independent, as in [VRK22]. Mini-batches
        and samples are always factorised. Full, the bound is tighter, and where X is two one-hot fields (users and
        items) passes are fewer, as factors are turned to where the priors fit them best.
        Rows of columns that no one-hot field tells (measured features) keep some 4 (1 + d)^2 numbers each.
    learn_priors : bool, default=True
        Whether the groups' priors are learnt, under nu ~ N(0, 1) and lam ~ Gamma(1, 1). Else all are N(0, 1), in units
        of the standardised target.
    batch_size : int, default=None
        Rows of a mini-batch, for Adam. None: coordinate ascent on all rows, which needs no learning rate and never
        lowers the bound.
    n_epochs : int, default=100
        Passes over all rows, at most.
    learning_rate : float, default=0.02
        Of Adam.
    average : bool, default=True
        Whether mini-batches predict by the average of the means and log standard deviations at the ends of the last
        half of the epochs; see also `predict_last`.
    n_samples : int, default=0
        0 takes expectations in closed form or by quadrature. S > 0 takes means over S draws of all parameters, as in
        [VRK22], for Adam.
    early_stopping : bool, default=False
        Whether some rows are held out, and the pass is kept that did best on them.
    validation_fraction : float, default=0.1
        Part of the rows that is held out.
    n_iter_no_change : int, default=10
        Passes without a better one after which early stopping ends the fit.
    tol : float, default=1e-5
        Gain of the bound in a pass, in nats per row, below which coordinate ascent has converged.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the sums that coordinate ascent keeps for each row; all else is float64.
    n_jobs : int, default=None
        Threads. None: as many as numba may use (`NUMBA_NUM_THREADS`). The result does not depend on it.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, if that had the same features, groups and `n_factors`.
    verbose : int, default=0
        Whether to print a line a pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the first factors, of the rows held out, of the mini-batches and of the samples.

    Attributes
    ----------
    posterior_ : FMPosterior
        All that predictions need.
    weights_, weights_std_ : ndarray of shape (n_features,)
        Posterior of the weights.
    factors_, factors_std_ : ndarray of shape (n_features, n_factors)
        Posterior of the factors.
    intercept_ : float
        Posterior mean of w_0.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups.
    group_priors_ : dict
        What was learnt of every group's prior, by label.
    lower_bounds_, lower_bound_ : ndarray of shape (n_passes,), float
        Bound after each pass, with the hyper-priors; in mini-batches, means of its estimates.
    converged_ : bool
        Whether coordinate ascent came to rest.
    validation_losses_ : ndarray
        Of early stopping, one a pass: root mean squared error of the standardised target, or log loss.
    n_iter_ : int
        Passes done.
    n_features_in_ : int
        Features.
    noise_ : float
        Standard deviation of the noise.

    References
    ----------
    .. [VRK22] J.-J. Vie, T. Rigaux, H. Kashima: Variational factorization machines for preference elicitation in
       large-scale recommender systems. IEEE BigData 2022.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skpref import VariationalFM
    >>> X = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), VariationalFM(n_factors=2, random_state=0))
    >>> bool(model.fit(X, [5, 1, 5, 1, 5]).predict([["cleo", "milk"]])[0] < 3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS

    def __init__(
        self,
        n_factors: int = 5,
        *,
        groups: Any = None,
        posterior: str = "full",
        learn_priors: bool = True,
        batch_size: int | None = None,
        n_epochs: int = 100,
        learning_rate: float = 0.02,
        average: bool = True,
        n_samples: int = 0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-5,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_factors = n_factors
        self.groups = groups
        self.posterior = posterior
        self.learn_priors = learn_priors
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.average = average
        self.n_samples = n_samples
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn weights, factors, priors and noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features; sparse ones stay sparse.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; 2 is the same as giving the row twice.

        Returns
        -------
        VariationalFM
            Itself, fitted.

        Raises
        ------
        ValueError
            If X, y or the weights cannot be used; the message names the row.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            old = getattr(self, "posterior_", None)
            X, y = self._read(X, y, reset=True)
            X, y, weight = self._weighted(X, y, sample_weight)
            warm = self._may_go_on(X)
            units = (old.offset, old.scale) if warm and old is not None else _units(y, weight)
            data = Data(X, (y - units[0]) / units[1], weight)
            return self._begin(data, Gaussian(1.0), units, warm=warm)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, freeze: Any = None) -> Self:
        """Learn from more rows, once: what was believed before them is the prior.

        Give each row once; a row given again counts twice. Priors and noise stay those of the first call. A column that
        no row had so far (a user to come, declared by the width of X) starts from the prior of its group.

        Parameters
        ----------
        X, y, sample_weight : array-like
            As in `fit`; the first call is the same as `fit`.
        freeze : label or array-like of labels, default=None
            Groups whose weights and factors stay as they are; then w_0 does, too. With the items frozen, answers of a
            person move nothing but this person.

        Returns
        -------
        VariationalFM
            Itself.

        Raises
        ------
        ValueError
            As in `fit`; or if there is no such group, or `n_factors` was changed.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, sample_weight)
        with unchanged_on_failure(self):
            X, y = self._read(X, y)
            X, y, weight = self._weighted(X, y, sample_weight)
            return self._go_on(Data(X, (y - self.posterior_.offset) / self.posterior_.scale, weight), freeze)

    def predict(self, X: Any, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        return_std : bool, default=False
            Whether to add standard deviations.

        Returns
        -------
        mean : ndarray of shape (n,)
            Predictive means.
        std : ndarray of shape (n,)
            Of a new target, noise included. Only when asked for.
        """
        mean, variance = self.latent_mean_and_variance(X)
        return (mean, np.sqrt(variance + self.noise_**2)) if return_std else mean

    def predict_last(self, X: Any) -> Array:
        """Predict targets by the last iterate instead of the average.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Predictive means; those of `predict` after coordinate ascent.
        """
        X = self._features(X)
        return self.posterior_.moments(X, last=True)[0]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw targets from the predictive distribution, all rows of a draw with the same parameters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Seed.

        Returns
        -------
        ndarray of shape (n, n_samples)
            With noise.
        """
        X = self._features(X)
        check_n_samples(n_samples)
        rng = as_generator(random_state)
        draws = self.posterior_.draws(X, n_samples, rng)
        return draws + self.noise_ * rng.standard_normal(draws.shape)

    @property
    def noise_(self) -> float:
        """Standard deviation of the noise."""
        return self.posterior_.scale * self._machine.noise

    def _loss_of(self, y: Array, mu: Array, v: Array, weight: Array) -> float:
        """Root mean squared error."""
        del v
        return float(np.sqrt(np.average((y - mu) ** 2, weights=weight)))


class VariationalFMClassifier(ClassifierMixin, FMBase):
    """Bayesian factorization machine for two classes.

    The probability of the second class is F(y(x)), y(x) as in `VariationalFM`, with F the standard normal distribution
    function or the logistic function. Expectations under q are taken by
    quadrature, over the normal distribution with the mean and variance of y(x).

    Parameters
    ----------
    n_factors : int, default=5
        Width d of the factors. 0 leaves a linear model.
    link : {"probit", "logit"}, default="probit"
        F.
    groups : array-like of shape (n_features,), default=None
        Label of each feature's group; a group shares one prior of weights and one of each factor. None: the fields of
        a one-hot design (ranges of columns of which every row has exactly one), else one group.
    posterior : {"full", "factorised"}, default="full"
        Whether a feature's weight and factors have a covariance matrix or are independent, as in [VRK22]. Mini-batches
        and samples are always factorised. Full, the bound is tighter, and where X is two one-hot fields (users and
        items) passes are fewer, as factors are turned to where the priors fit them best.
        Rows of columns that no one-hot field tells (measured features) keep some 4 (1 + d)^2 numbers each.
    learn_priors : bool, default=True
        Whether the groups' priors are learnt, under nu ~ N(0, 1) and lam ~ Gamma(1, 1). Else all are N(0, 1).
    batch_size : int, default=None
        Rows of a mini-batch, for Adam. None: coordinate ascent on all rows, which needs no learning rate and never
        lowers the bound.
    n_epochs : int, default=100
        Passes over all rows, at most.
    learning_rate : float, default=0.02
        Of Adam.
    average : bool, default=True
        Whether mini-batches predict by the average of the means and log standard deviations at the ends of the last
        half of the epochs; see also `predict_last`.
    n_samples : int, default=0
        0 takes expectations in closed form or by quadrature. S > 0 takes means over S draws of all parameters, as in
        [VRK22], for Adam.
    early_stopping : bool, default=False
        Whether some rows are held out, and the pass is kept that did best on them.
    validation_fraction : float, default=0.1
        Part of the rows that is held out.
    n_iter_no_change : int, default=10
        Passes without a better one after which early stopping ends the fit.
    tol : float, default=1e-5
        Gain of the bound in a pass, in nats per row, below which coordinate ascent has converged.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the sums that coordinate ascent keeps for each row; all else is float64.
    n_jobs : int, default=None
        Threads. None: as many as numba may use (`NUMBA_NUM_THREADS`). The result does not depend on it.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, if that had the same features, groups and `n_factors`.
    verbose : int, default=0
        Whether to print a line a pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the first factors, of the rows held out, of the mini-batches and of the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    posterior_ : FMPosterior
        All that predictions need.
    weights_, weights_std_ : ndarray of shape (n_features,)
        Posterior of the weights.
    factors_, factors_std_ : ndarray of shape (n_features, n_factors)
        Posterior of the factors.
    intercept_ : float
        Posterior mean of w_0.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups.
    group_priors_ : dict
        What was learnt of every group's prior, by label.
    lower_bounds_, lower_bound_ : ndarray of shape (n_passes,), float
        Bound after each pass, with the hyper-priors; in mini-batches, means of its estimates.
    converged_ : bool
        Whether coordinate ascent came to rest.
    validation_losses_ : ndarray
        Of early stopping, one a pass: root mean squared error of the standardised target, or log loss.
    n_iter_ : int
        Passes done.
    n_features_in_ : int
        Features.

    References
    ----------
    .. [VRK22] J.-J. Vie, T. Rigaux, H. Kashima: Variational factorization machines for preference elicitation in
       large-scale recommender systems. IEEE BigData 2022.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skpref import VariationalFMClassifier
    >>> X = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> encoder = OneHotEncoder(handle_unknown="ignore")
    >>> model = make_pipeline(encoder, VariationalFMClassifier(n_factors=2, random_state=0))
    >>> model.fit(X, ["yes", "no", "yes", "no", "yes"]).predict([["cleo", "milk"]]).tolist()
    ['no']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "link": [StrOptions({"probit", "logit"})],
    }

    def __init__(
        self,
        n_factors: int = 5,
        *,
        link: str = "probit",
        groups: Any = None,
        posterior: str = "full",
        learn_priors: bool = True,
        batch_size: int | None = None,
        n_epochs: int = 100,
        learning_rate: float = 0.02,
        average: bool = True,
        n_samples: int = 0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-5,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_factors = n_factors
        self.link = link
        self.groups = groups
        self.posterior = posterior
        self.learn_priors = learn_priors
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.average = average
        self.n_samples = n_samples
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn weights, factors and priors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features; sparse ones stay sparse.
        y : array-like of shape (n,)
            Labels of two classes.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; 2 is the same as giving the row twice.

        Returns
        -------
        VariationalFMClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            If X, y or the weights cannot be used.
        """
        with fit_callbacks(self, X, y, sample_weight):
            return self._start(X, y, None, sample_weight)

    def _start(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        with unchanged_on_failure(self):
            before = getattr(self, "classes_", np.empty(0)).tolist()
            X, y = self._read(X, y, reset=True)
            check_classification_targets(y)
            X, y, weight = self._weighted(X, y, sample_weight)
            self.classes_ = _two_classes(np.unique(y) if classes is None else np.unique(classes), type_of_target(y))
            warm = self._may_go_on(X) and before == self.classes_.tolist()
            return self._begin(Data(X, self._encoded(y), weight), _LINKS[self.link], (0.0, 1.0), warm=warm)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, freeze: Any = None) -> Self:
        """Learn from more rows, once: what was believed before them is the prior.

        Parameters
        ----------
        X, y : array-like
            As in `fit`; the first call is the same as `fit`. See `VariationalFM.partial_fit`.
        classes : array-like of shape (2,), default=None
            Both labels, if the first rows may hold but one.
        sample_weight : array-like of shape (n,), default=None
            As in `fit`.
        freeze : label or array-like of labels, default=None
            Groups whose weights and factors stay as they are; then w_0 does, too.

        Returns
        -------
        VariationalFMClassifier
            Itself.

        Raises
        ------
        ValueError
            As in `fit`; or if a label is new, there is no such group, or `n_factors` was changed.
        """
        if not hasattr(self, "posterior_"):
            return self._start(X, y, classes, sample_weight)
        with unchanged_on_failure(self):
            if classes is not None and np.unique(classes).tolist() != self.classes_.tolist():
                msg = f"classes are {list(classes)}, but those of the first call were {self.classes_.tolist()}"
                raise DataError(f"{msg}; start anew by fit with all rows.")
            X, y = self._read(X, y)
            X, y, weight = self._weighted(X, y, sample_weight)
            return self._go_on(Data(X, self._encoded(y), weight), freeze)

    def _encoded(self, y: NDArray[Any]) -> Array:
        known = np.isin(y, self.classes_)
        if not known.all():
            row = int(np.argmin(known))
            label, classes = shorten(y[row : row + 1].tolist()[0]), self.classes_.tolist()
            raise DataError(f"label {label} in row {row} is none of the classes {classes}.")
        return (y == self.classes_[1]).astype(np.float64)

    def decision_function(self, X: Any) -> Array:
        """Return F^-1 of the probability of the second class: E y(x), drawn to 0 by what is not known.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the second class is the more probable; in the order of `predict_proba`.
        """
        mu, v = self.latent_mean_and_variance(X)
        likelihood = self._machine.likelihood
        if isinstance(likelihood, PairwiseProbit):
            return mu / np.sqrt(1.0 + v)
        return np.asarray(np.log(likelihood.predict(mu, v)) - np.log(likelihood.predict(-mu, v)))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n, 2)
            In the order of `classes_`.
        """
        mu, v = self.latent_mean_and_variance(X)
        p = self._machine.likelihood.predict(mu, v)
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Of `classes_`.
        """
        mu, _ = self.latent_mean_and_variance(X)
        return self.classes_[(mu > 0.0).astype(int)]

    def predict_last(self, X: Any) -> NDArray[Any]:
        """Return the more probable class by the last iterate instead of the average.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Those of `predict` after coordinate ascent.
        """
        X = self._features(X)
        mu, _ = self.posterior_.moments(X, last=True)
        return self.classes_[(mu > 0.0).astype(int)]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Draw labels from the predictive distribution, all rows of a draw with the same parameters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Seed.

        Returns
        -------
        ndarray of shape (n, n_samples)
            Of `classes_`.
        """
        X = self._features(X)
        check_n_samples(n_samples)
        rng = as_generator(random_state)
        draws = self.posterior_.draws(X, n_samples, rng)
        p = self._machine.likelihood.predict(draws, np.zeros(draws.shape))
        return self.classes_[(rng.random(p.shape) < p).astype(int)]

    def _loss_of(self, y: Array, mu: Array, v: Array, weight: Array) -> float:
        """Minus the mean log probability."""
        # The probability of what happened: 1 - P would round small ones away.
        p = _LINKS[self.link].predict(np.where(y > 0.5, mu, -mu), v)
        return -float(np.average(np.log(np.maximum(p, np.finfo(float).tiny)), weights=weight))


def _units(y: Array, weight: Array) -> tuple[float, float]:
    """Mean and standard deviation of the targets, which are standardised; 1 if they are all the same."""
    largest = float(np.abs(y).max()) or 1.0
    mean = float(np.average(y / largest, weights=weight))
    spread = float(np.sqrt(np.average((y / largest - mean) ** 2, weights=weight)))
    return mean * largest, spread * largest if spread > _CONSTANT else 1.0


def _two_classes(classes: NDArray[Any], kind: str) -> NDArray[Any]:
    if classes.size > 2:
        raise DataError(f"Only binary classification is supported. The type of the target is {kind}.")
    if classes.size < 2:
        raise DataError(f"samples of two classes are needed; the target holds only one class: {classes.tolist()}.")
    return classes
