"""`VariationalFMClassifier`: factorization machines for two classes by variational inference ([VRK22])."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from skpref._callbacks import fit_context
from skpref._sources import accept_collections
from skpref.factorization.machine.base import CONSTRAINTS, FactorizationMachine
from skpref.factorization.machine.heads import ClassHead
from skpref.likelihoods import PairwiseProbit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, MatrixLike


@dataclass(eq=False, repr=False, kw_only=True)
class VariationalFMClassifier(ClassifierMixin, FactorizationMachine):
    """Bayesian factorization machine for two classes, such as clicks or likes of items by users.

    The probability of the second class is F(y(x)), with y(x) as in `VariationalFM` and F the standard normal or the
    logistic distribution function. Expectations over the posterior are computed by quadrature, with y(x) taken as
    normal with its exact mean and variance.

    Parameters
    ----------
    n_factors : int, default=5
        Number of factors d per feature. 0 gives a linear model.
    groups : array-like of shape (n_features,), default=None
        Label of each feature's group. The features of a group share the prior of the weight, and of each factor. If
        None, each field of a one-hot design (a range of columns with a single one in every row) is a group; if X is not
        a one-hot design, there is one group. In files each column is a group, with its name.
    categorical_features : array-like of str or str, default=None
        Names of the columns of files that hold ids, such as user, item or shop; each id is a feature. All other columns
        must be numbers. If None, all columns except floats, decimals and booleans hold ids. For data in memory it must
        be None: encode ids by `OneHotDesign`.
    posterior : {"full", "factorised"}, default="full"
        "full" learns a covariance matrix of each feature's weight and factors, "factorised" only variances, as in
        [VRK22]. The default has a better bound, and converges in fewer passes if X has two one-hot fields (users and
        items). It keeps about 4 (1 + d)^2 numbers for each row with measured features. Mini-batches and samples are
        always factorised.
    learn_priors : bool, default=True
        If True, the priors of the groups are learnt, with hyperpriors nu ~ N(0, 1) and lam ~ Gamma(1, 1). If False,
        all priors are N(0, 1).
    batch_size : int, default=None
        Number of rows in a mini-batch, for Adam. If None, coordinate ascent over all rows is used, which needs no
        learning rate and never lowers the bound.
    max_iter : int, default=100
        Maximum number of passes over all rows.
    learning_rate : float, default=0.02
        Learning rate of Adam. Coordinate ascent ignores it.
    average : bool, default=True
        If True, predictions after mini-batches use the average of the means and log standard deviations over the last
        half of `max_iter`, and over earlier passes in which the bound no longer rose. `predict_last` uses the last
        pass.
    n_samples : int, default=0
        If 0, expectations are exact or computed by quadrature. If positive, they are averages over this number of draws
        of all parameters, as in [VRK22], and Adam is used.
    kl_weights : {"unbiased", "normalised"}, default="unbiased"
        Weights of the features' divergences in a mini-batch. "unbiased": the share of the feature's rows that are in
        the batch, so that the bound is estimated without bias. "normalised": these shares divided by their mean over
        the group's features in all data, as in [VRK22], which shrinks rare features more.
    early_stopping : bool, default=False
        If True, some rows are held out, and the pass with the best validation loss is kept.
    validation_fraction : float or None, default=0.1
        Share of the rows that `early_stopping` holds out. If None, it uses the bound on all rows instead, and the last
        pass is kept. This is meant for Adam: coordinate ascent stops by `tol`.
    n_iter_no_change : int, default=10
        Number of passes without a better validation loss, or bound, after which `early_stopping` ends the fit. The
        paper stops after 4 passes in which the bound falls, but with few samples the bound also falls by chance.
    tol : float, default=1e-5
        Coordinate ascent has converged if a pass raises the bound by less than this, in nats per row. With
        `early_stopping` on the bound, a pass is better if its bound is higher by at least this.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the sums that coordinate ascent keeps for each row; everything else is float64.
    n_jobs : int, default=None
        Number of threads. If None, as many as numba may use (`NUMBA_NUM_THREADS`). It does not change the result.
    warm_start : bool, default=False
        If True, `fit` starts from the result of the last fit, if features, groups and `n_factors` are the same.
    verbose : int, default=0
        If positive, print one line per pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the first factors, the rows held out, the mini-batches and the samples.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the rows; classes that a dict lacks have weight 1. "balanced":
        inversely proportional to the classes' weights in y. Probabilities are then those of such a population, and no
        longer those of new rows. Not for rows in files or on a cluster, and "balanced" not for `partial_fit`.
    link : {"probit", "logit"}, default="probit"
        The function F: normal ("probit"), whose predictions are in closed form, or logistic ("logit").

    Attributes
    ----------
    fitted_ : FMFitted
        All that the fit has learnt, in one record; the other attributes are read from it.
    classes_ : ndarray of shape (2,)
        Labels; the second one has the probability F(y(x)).
    posterior_ : FMPosterior
        Posterior of all parameters.
    weights_, weights_std_ : ndarray of shape (n_features,)
        Posterior means and standard deviations of the weights.
    factors_, factors_std_ : ndarray of shape (n_features, n_factors)
        Posterior means and standard deviations of the factors.
    intercept_ : float
        Posterior mean of w_0.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups.
    group_priors_ : dict
        Means and standard deviations of each group's prior, by label.
    feature_importances_ : ndarray of shape (n_features,)
        Variance that each feature adds, interactions included, if all have mean 0 and variance 1: scale features first.
    lower_bounds_ : ndarray of shape (n_passes,)
        Evidence lower bound after each pass, including the hyperpriors; in mini-batches, its mean estimate.
    lower_bound_ : float
        The last of `lower_bounds_`. An approximate bound, because y(x) is taken as normal.
    converged_ : bool
        Whether the fit ended before `max_iter` because the bound no longer rose.
    validation_losses_ : ndarray
        Log loss after each pass, with `early_stopping`.
    n_iter_ : int
        Number of passes.
    n_features_in_ : int
        Number of features; with files, the number of their columns.
    design_ : ColumnDesign or None
        After a fit to files, how their columns become features: `design_.get_feature_names_out()` names these, and
        `design_.transform(frame)` returns them, of shape (n, n_features). None after a fit to data in memory.

    See Also
    --------
    VariationalFM : The same model for regression.

    References
    ----------
    .. [VRK22] J.-J. Vie, T. Rigaux, H. Kashima: Variational factorization machines for preference elicitation in
       large-scale recommender systems. IEEE BigData 2022.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import OneHotDesign, VariationalFMClassifier
    >>> X = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFMClassifier(n_factors=2, random_state=0))
    >>> model.fit(X, ["yes", "no", "yes", "no", "yes"]).predict([["cleo", "milk"]]).tolist()
    ['no']
    """

    class_weight: dict[Any, float] | str | None = None
    link: Literal["probit", "logit"] = "probit"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS | {
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "link": [StrOptions({"probit", "logit"})],
    }

    @property
    def _head(self) -> ClassHead:
        return ClassHead(self.link)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @property
    def classes_(self) -> Any:
        """Labels; the second one has the probability F(y(x))."""
        return self._learnt.classes

    @fit_context
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        freeze: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows; the present posterior is the prior.

        Pass each row once: a row that is passed again counts twice. The priors of the groups do not change. A column
        without entries so far (a future user, for which X has a column) starts from the prior of its group.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        y : array-like of shape (n,)
            Labels.
        classes : array-like of shape (2,), default=None
            Both labels. The first call needs them if its y has only one label.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        freeze : label or array-like of labels, default=None
            Groups that are not updated; w_0 is then not updated either. If all groups except the users are frozen, new
            answers change only their users.

        Returns
        -------
        VariationalFMClassifier
            The fitted estimator. The first call is the same as `fit`.

        Raises
        ------
        ValueError
            As in `fit`; or if a label is new, a group of `freeze` does not exist, or `n_factors` was changed.
        """
        return self._partial_fit(X, y, classes, sample_weight, freeze)

    @accept_collections
    def decision_function(self, X: MatrixLike) -> Array:
        """Return F^-1 of the probability of the second class: the mean of y(x), shrunk to 0 by its variance.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Positive if the second class is more probable. It sorts rows in the same way as `predict_proba`.
        """
        mu, v = self.latent_mean_and_variance(X)
        likelihood = self._machine.likelihood
        if isinstance(likelihood, PairwiseProbit):
            return mu / np.sqrt(1.0 + v)
        return np.asarray(np.log(likelihood.predict(mu, v)) - np.log(likelihood.predict(-mu, v)))

    @accept_collections
    def predict_proba(self, X: MatrixLike) -> Array:
        """Return the probability of each class, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n, 2)
            Probabilities, in the order of `classes_`.
        """
        mu, v = self.latent_mean_and_variance(X)
        p = self._machine.likelihood.predict(mu, v)
        return np.column_stack([1.0 - p, p])

    @accept_collections
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Predict the more probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Labels, from `classes_`.
        """
        mu, _ = self.latent_mean_and_variance(X)
        return self.classes_[(mu > 0.0).astype(int)]

    score = accept_collections(ClassifierMixin.score)

    def predict_last(self, X: MatrixLike) -> NDArray[Any]:
        """Predict the more probable class with the last iterate instead of the average.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Labels, from `classes_`. After coordinate ascent they are those of `predict`.
        """
        X = self._features(X)
        mu, _ = self.posterior_.moments(X, last=True)
        return self.classes_[(mu > 0.0).astype(int)]
