"""`VariationalFM`: factorization machines for regression by variational inference ([VRK22])."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin

from skpref._callbacks import fit_context
from skpref._sources import accept_collections
from skpref.factorization.machine.base import FactorizationMachine
from skpref.factorization.machine.heads import NumberHead

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array, MatrixLike


class VariationalFM(RegressorMixin, FactorizationMachine):
    """Bayesian factorization machine for numbers, from ids and features such as users, items and hours.

    The model is y(x) = w_0 + <w, x> + sum_(k<l) x_k x_l <v_k, v_l>, with y ~ N(y(x), 1/alpha) ([VRK22] section III).
    The posterior over weights and factors is normal, independent between features. The evidence lower bound is
    maximised over the posterior, the priors of groups of features, and the noise. All updates of coordinate ascent are
    in closed form (docs/maths section 9).

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
        all priors are N(0, 1), in units of the standardised target.
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

    Attributes
    ----------
    fitted_ : FMFitted
        All that the fit has learnt, in one record; the other attributes are read from it.
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
        The last of `lower_bounds_`.
    converged_ : bool
        Whether the fit ended before `max_iter` because the bound no longer rose.
    validation_losses_ : ndarray
        Root mean squared error of the standardised target after each pass, with `early_stopping`.
    n_iter_ : int
        Number of passes.
    n_features_in_ : int
        Number of features; with files, the number of their columns.
    design_ : ColumnDesign or None
        After a fit to files, how their columns become features: `design_.get_feature_names_out()` names these, and
        `design_.transform(frame)` returns them, of shape (n, n_features). None after a fit to data in memory.
    noise_ : float
        Standard deviation of the noise.

    See Also
    --------
    VariationalFMClassifier : The same model for two classes.
    skpref.factorization.fm_ordinal.VariationalFMOrdinal : The same model for ratings on a scale of levels.

    References
    ----------
    .. [VRK22] J.-J. Vie, T. Rigaux, H. Kashima: Variational factorization machines for preference elicitation in
       large-scale recommender systems. IEEE BigData 2022.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import OneHotDesign, VariationalFM
    >>> X = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=2, random_state=0))
    >>> bool(model.fit(X, [5, 1, 5, 1, 5]).predict([["cleo", "milk"]])[0] < 3)
    True
    """

    _head = NumberHead()

    @fit_context
    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, freeze: ArrayLike | None = None
    ) -> Self:
        """Update the posterior with more rows; the present posterior is the prior.

        Pass each row once: a row that is passed again counts twice. The priors of the groups and the noise do not
        change. A column without entries so far (a future user, for which X has a column) starts from the prior of its
        group.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        freeze : label or array-like of labels, default=None
            Groups that are not updated; w_0 is then not updated either. If all groups except the users are frozen, new
            ratings change only their users.

        Returns
        -------
        VariationalFM
            The fitted estimator. The first call is the same as `fit`.

        Raises
        ------
        ValueError
            As in `fit`; or if a group of `freeze` does not exist, or `n_factors` was changed.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight)
        return self._partial_fit(X, y, None, sample_weight, freeze)

    @overload
    def predict(self, X: MatrixLike, *, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: MatrixLike, *, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict(self, X: MatrixLike, *, return_std: bool) -> Array | tuple[Array, Array]: ...
    @accept_collections
    def predict(self, X: MatrixLike, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        return_std : bool, default=False
            Whether to return standard deviations, too.

        Returns
        -------
        mean : ndarray of shape (n,)
            Predictive means.
        std : ndarray of shape (n,)
            Standard deviations of new targets, including noise, if `return_std` is True.
        """
        mean, variance = self.latent_mean_and_variance(X)
        return (mean, np.sqrt(variance + self.noise_**2)) if return_std else mean

    score = accept_collections(RegressorMixin.score)

    def predict_last(self, X: MatrixLike) -> Array:
        """Predict targets with the last iterate instead of the average.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Predictive means. After coordinate ascent they are those of `predict`.
        """
        X = self._features(X)
        return self.posterior_.moments(X, last=True)[0]

    @property
    def noise_(self) -> float:
        """Standard deviation of the noise."""
        return self.posterior_.noise
