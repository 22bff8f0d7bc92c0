"""What a market researcher asks of `CrowdGPPL`: shares of products, part-worths, willingness to pay, importances."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skpref._estimator import check_credibility, check_n_samples
from skpref._math.random import as_generator
from skpref._validation import as_frame, column_names, is_missing, refuse_repeated_columns
from skpref.data.choices import NONE, encode_profile
from skpref.data.ids import objects, shorten
from skpref.data.records import make_frame
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.crowd.leaderboards import CrowdLeaderboards
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.crowd.policy import POLICY
from skpref.gp.entities import Items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from skpref._typing import Array, IntArray, RandomState


class CrowdMarket(CrowdLeaderboards):
    """What products are worth to people, and what people would choose."""

    # -------------------------------------------------------------------------------------------------------- simulator
    def shares(
        self,
        products: Any,
        *,
        none: bool = False,
        users: ArrayLike | None = None,
        by: Mapping[Any, Hashable] | None = None,
        weights: Mapping[Any, float] | None = None,
        new_people: bool = False,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
        rule: Literal["logit", "first choice"] = "logit",
        credibility: float = 0.9,
        n_samples: int = 500,
        random_state: RandomState = 0,
    ) -> Any:
        """Predict the shares of products that compete, the average over people of their probabilities to choose each.

        Parameters
        ----------
        products : dict, list, data frame, or list of these
            A scenario: ``{"ours": {"brand": "x", "price": 3}, "theirs": {...}}``, with the attributes of `from_tasks`
            or else the columns of `items`; a data frame with a row for each product and these columns; or a list of ids
            of items, with which a dict may name products, too. A list of these: several scenarios.
        none : bool, default=False
            Whether people may choose none of the products, where the model has the feature or the item "none".
        users : array-like of shape (n_users,), default=None
            Ids of the people. None: all who answered.
        by : dict, default=None
            Segment of each user, by id: shares are those within the segments. People who are not in it are left out.
        weights : dict, default=None
            Weight of each user, by id, such as how many people a user stands for. None: all weights are 1.
        new_people : bool, default=False
            Whether to predict other people of the same population in place of the people who answered.
        groups, context, at : dict, dict, and datetime, str or number, default=None
            Groups, context and time of the choices, as in `utility`.
        rule : {"logit", "first choice"}, default="logit"
            "logit": people choose with the noise that their answers had. "first choice": each chooses the best.
        credibility : float, default=0.9
            Posterior probability of each interval, which is for the average over these people.
        n_samples : int, default=500
            Posterior draws of the utilities.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.

        Returns
        -------
        pandas.DataFrame
            Columns product, share, std, share_low, share_high; with several scenarios or with `by` also scenario and
            segment. The shares of a scenario add up to 1.

        Raises
        ------
        ValueError
            If a product lacks an attribute, or has an unknown one or a level that fit has not seen; if a user is
            unknown; or if the model is of comparisons.

        Notes
        -----
        Given one person's utilities, the odds of two products do not depend on the others. Over people they do: a copy
        of a product takes most from that product where tastes differ.

        Examples
        --------
        >>> from skpref import CrowdGPPL
        >>> from skpref.datasets import make_choices
        >>> data = make_choices(n_users=20, random_state=0)
        >>> model = CrowdGPPL(data.table, random_state=0).fit(data.X, data.y)
        >>> rival = {"brand": "y", "price": 3.0}
        >>> shares = model.shares([{"ours": {"brand": "x", "price": p}, "theirs": rival} for p in (2.0, 4.0)])
        >>> bool(shares["share"][0] > shares["share"][2])
        True
        """
        self._refuse_comparisons("shares")
        check_credibility(credibility)
        if rule not in ("logit", "first choice"):
            raise DataError(f"rule must be 'logit' or 'first choice'; got {shorten(rule)}")
        if new_people and not (users is None and by is None and weights is None):
            raise DataError("new_people=True is about people who did not answer; leave users, by and weights out")
        named = [self._products(scenario, k, none=none) for k, scenario in enumerate(_scenarios(products))]
        columns: dict[str, list[Any]] = {"scenario": [], "segment": [], "product": []}
        values: list[Array] = []
        for segment, people in self._segments_of(users, by, new_people=new_people).items():
            ends = np.cumsum([len(names) for names, _ in named])[:-1]
            everything, weight = _stacked([items for _, items in named]), self._weights_of(people, weights)
            posterior = self._group_posterior(groups, at, context)
            drawn = self._draws(people, everything, n_samples, random_state, posterior, _numbers(named))
            totals = [np.zeros((n_samples, len(names))) for names, _ in named]
            for of_user, draws in zip(weight, drawn, strict=True):
                for k, utility in enumerate(np.split(draws, ends, axis=1)):
                    totals[k] += of_user * _chosen_shares(utility, rule)
            for k, ((names, _), total) in enumerate(zip(named, totals, strict=True)):
                columns["scenario"] += [k] * len(names)
                columns["segment"] += [segment] * len(names)
                columns["product"] += names
                values.append((total / weight.sum()).T)
        several = {"scenario": len(named) > 1, "segment": by is not None}
        kept = {name: column for name, column in columns.items() if several.get(name, True)}
        return make_frame(kept | _summary("share", np.vstack(values), credibility))

    def sensitivity(
        self, attribute: str, values: ArrayLike, products: Any, *, product: Hashable | None = None, **options: Any
    ) -> Any:
        """Predict the shares of products for several values of one attribute of a product: a price curve.

        Parameters
        ----------
        attribute : str
            The attribute, such as "price".
        values : array-like of shape (n,)
            Its values.
        products : dict of dicts
            The products that compete, as in `shares`.
        product : hashable, default=None
            Name of the product whose attribute changes. None: the first one.
        **options
            Further parameters of `shares`.

        Returns
        -------
        pandas.DataFrame
            Columns product, the attribute's name, share, std, share_low, share_high.

        Raises
        ------
        ValueError
            As in `shares`, or if there are no values.

        Examples
        --------
        >>> from skpref import CrowdGPPL
        >>> from skpref.datasets import make_choices
        >>> data = make_choices(n_users=20, random_state=0)
        >>> model = CrowdGPPL(data.table, random_state=0).fit(data.X, data.y)
        >>> products = {"ours": {"brand": "x", "price": 2.0}, "theirs": {"brand": "y", "price": 3.0}}
        >>> curve = model.sensitivity("price", [2.0, 3.0, 4.0], products)
        >>> bool(curve[curve["product"] == "ours"]["share"].is_monotonic_decreasing)
        True
        """
        self._refuse_comparisons("sensitivity")
        is_dict = isinstance(products, Mapping) and len(products) > 0
        if not is_dict or not all(hasattr(row, "keys") for row in products.values()):
            raise DataError("products must be a dict of the attributes of each product; shares takes other forms")
        name = next(iter(products)) if product is None else product
        if name not in list(products):
            raise DataError(f"product {shorten(name)} is none of the products {shorten(list(products))}")
        points, changed = np.asarray(values).ravel().tolist(), dict(products[name])
        if not points or not isinstance(attribute, str):
            raise DataError(
                f"values must be one value of an attribute or more, and attribute its name; got {shorten(values)}"
            )
        frame = self.shares([{**products, name: {**changed, attribute: value}} for value in points], **options)
        number = frame.pop("scenario") if len(points) > 1 else [0] * len(frame)
        if attribute in frame:
            raise DataError(f"the result has a column {attribute!r}, too: give this feature another name")
        frame.insert(1, attribute, [points[k] for k in number])
        return frame

    # ------------------------------------------------------------------------------------------------------ part-worths
    def part_worths(self, users: ArrayLike | None = None, *, credibility: float = 0.9) -> Any:
        """Describe the part-worths: the effects of the features of items on utilities.

        Where each item has one level of an attribute, those of the levels are differences from their mean, and that of
        "none" is a difference from a product of mean levels. Numbers have the effect of one unit.

        Parameters
        ----------
        users : array-like of shape (n_users,), default=None
            Ids of users, whose own part-worths are described. None: those of the population.
        credibility : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        pandas.DataFrame
            One row a feature: feature, mean, std, low, high of the population's mean; and between_people, the standard
            deviation of part-worths between people. With `users` one row for each user and feature: user, feature,
            mean, std, low, high. In units of the answer noise.

        Raises
        ------
        ValueError
            If the model has no part-worths: they need features of items, and answers that are tasks.
        """
        names = self._feature_names("part_worths")
        check_credibility(credibility)
        posterior, d, far = self._posterior_of_features(), len(names), float(ndtri(0.5 + 0.5 * credibility))
        unit = self._featured(np.vstack([self._centred_levels(names), np.zeros(d)]))
        left, right = np.arange(d), np.full(d, d)
        if users is None:
            mean, variance = posterior.consensus.pairs(unit, left, right, order=False)
            weights = posterior._weights(unit)[0][:-1]  # noqa: SLF001 - of this package
            between = np.sqrt(np.einsum("ij,jk,ik->i", weights, posterior.S_people, weights))
            std = np.sqrt(variance)
            columns = {"feature": names, "mean": mean, "std": std, "low": mean - far * std, "high": mean + far * std}
            return make_frame(columns | {"between_people": between})
        ids, people = self._people(users)
        asked = (people, np.repeat(np.arange(people.size), d)), unit, np.tile(left, people.size)
        mean, variance = posterior.pairs(*asked, np.tile(right, people.size), order=False)
        std = np.sqrt(variance)
        columns = {"user": np.repeat(ids, d), "feature": names * people.size, "mean": mean, "std": std}
        return make_frame(columns | {"low": mean - far * std, "high": mean + far * std})

    def willingness_to_pay(
        self, price: str, *, credibility: float = 0.9, n_samples: int = 500, random_state: RandomState = 0
    ) -> Any:
        """Describe what people would pay for one more unit of each feature: - part-worth / part-worth of the price.

        Ratios of uncertain numbers have no mean: the table has medians over people, and quantiles of people.

        Parameters
        ----------
        price : str
            The feature that is the price.
        credibility : float, default=0.9
            Posterior probability of each interval, which is for the median over people.
        n_samples : int, default=500
            Posterior draws.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.

        Returns
        -------
        pandas.DataFrame
            Columns feature, median, median_low, median_high, people_25 and people_75, quartiles of the people, and
            wrong_sign, the share of people who would rather pay more, whose ratios mean nothing. Of levels, the first
            of an attribute is what others are compared with; "none" is left out. In units of the price.

        Raises
        ------
        ValueError
            If there is no such feature, it is a level, or nothing but the price has part-worths.
        """
        names = self._feature_names("willingness_to_pay")
        check_credibility(credibility)
        attributes = self._attributes(names)
        if not isinstance(price, str) or attributes.get(price) != [price]:
            numbers = [name for name, features in attributes.items() if features == [name]]
            raise DataError(f"price must be a feature that is a number, {shorten(numbers)}; got {shorten(price)}")
        titles, contrasts = _contrasts(attributes, names)
        kept = [k for k, title in enumerate(titles) if title != price]
        if not kept:
            raise DataError(f"the items have no other features than {shorten(price)}")
        B = self._part_worth_draws(n_samples, random_state)  # (U, n_samples, d)
        of_price = B[:, :, names.index(price)]
        with np.errstate(divide="ignore", over="ignore"):
            ratio = -(B @ contrasts[kept].T) / of_price[:, :, None]
        median = np.median(ratio, axis=0)  # (n_samples, n)
        quartiles = np.quantile(ratio.reshape(-1, len(kept)), (0.25, 0.75), axis=0)
        low, high = np.quantile(median, (0.5 - 0.5 * credibility, 0.5 + 0.5 * credibility), axis=0)
        columns = {"feature": [titles[k] for k in kept], "median": np.median(median, axis=0), "median_low": low}
        columns |= {"median_high": high, "people_25": quartiles[0], "people_75": quartiles[1]}
        return make_frame(columns | {"wrong_sign": float(np.mean(of_price > 0.0))})

    def importances(self, *, credibility: float = 0.9, n_samples: int = 500, random_state: RandomState = 0) -> Any:
        """Describe how much each attribute can change utilities, over its range among the items; shares that add to 1.

        Parameters
        ----------
        credibility : float, default=0.9
            Posterior probability of each interval, which is for the average over people.
        n_samples : int, default=500
            Posterior draws.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.

        Returns
        -------
        pandas.DataFrame
            Columns attribute, importance, std, importance_low, importance_high.

        Raises
        ------
        ValueError
            If the model has no part-worths.
        """
        names = self._feature_names("importances")
        check_credibility(credibility)
        features = _dense(self._items.seen_features)
        if NONE in names:
            features = features[features[:, names.index(NONE)] == 0.0]
        B, attributes = self._part_worth_draws(n_samples, random_state), self._attributes(names)
        ranges = np.empty((len(attributes), *B.shape[:2]))
        for k, own in enumerate(attributes.values()):
            columns = [names.index(name) for name in own]
            values = features[:, columns]
            rows = np.unique(values, axis=0) if len(own) > 1 else np.array([values.min(axis=0), values.max(axis=0)])
            ranges[k] = np.ptp(B[:, :, columns] @ rows.T, axis=2)
        shares = (ranges / np.maximum(ranges.sum(axis=0), np.finfo(np.float64).tiny)).mean(axis=1)
        return make_frame({"attribute": list(attributes)} | _summary("importance", shares, credibility))

    def scores(
        self,
        items: ArrayLike | None = None,
        users: ArrayLike | None = None,
        *,
        credibility: float = 0.9,
        n_samples: int = 500,
        random_state: RandomState = 0,
    ) -> Any:
        """Describe items by scores that add up to 100, as MaxDiff studies do: shares of choice, averaged over people.

        The score of an item is proportional to its probability to be chosen beside k - 1 items of average utility,
        where k is the number of items that a task of `fit` shows.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids of items. None: all that were shown.
        users : array-like of shape (n_users,), default=None
            Ids of users. None: all who answered.
        credibility : float, default=0.9
            Posterior probability of each interval, which is for the average over these people.
        n_samples : int, default=500
            Posterior draws.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.

        Returns
        -------
        pandas.DataFrame
            Columns item, score, std, score_low, score_high; the best first.

        Raises
        ------
        ValueError
            If an item or a user is unknown, there is none, or the model is of comparisons.
        """
        self._refuse_comparisons("scores")
        check_credibility(credibility)
        check_n_samples(n_samples)
        ids, chosen = self._items.select(self.item_ids_ if items is None else items)
        if not chosen.size:
            raise DataError("items names no item")
        _, people = self._people(users)
        total = np.zeros((n_samples, chosen.size))
        for draws in self._draws(people, chosen, n_samples, random_state):
            centred = draws - draws.mean(axis=1, keepdims=True)
            share = 1.0 / (1.0 + (self.classes_.size - 1.0) * np.exp(-centred))
            total += 100.0 * share / share.sum(axis=1, keepdims=True)
        columns = {"item": ids} | _summary("score", (total / people.size).T, credibility)
        return make_frame(columns).sort_values("score", ascending=False, kind="stable", ignore_index=True)

    # ---------------------------------------------------------------------------------------------------------- helpers
    def _refuse_comparisons(self, method: str) -> None:
        """Refuse a method of tasks where the model is of comparisons, whose noise may be another."""
        check_is_fitted(self)
        if not self._has_tasks:
            raise DataError(
                f"{method} is for models of tasks, but this one was fitted to comparisons. Two items shown are a task, "
                "too: fit with likelihood='luce'"
            )

    def _feature_names(self, method: str) -> list[str]:
        """Return the names of the features whose effects are part-worths."""
        self._refuse_comparisons(method)
        if not (isinstance(self.posterior_, PersonalPosterior) and self.posterior_.places.n_attributes):
            raise DataError(
                "the model has no part-worths: they need features of the items, CrowdGPPL(items=...), and kernel=None; "
                "rank and scores describe items without features"
            )
        return self._titles()

    def _titles(self) -> list[str]:
        """Return the names of the features of items, x0, x1, ... where they have none."""
        return list(self._items.feature_names or [f"x{k}" for k in range(self._items.n_features)])

    def _attributes(self, names: list[str]) -> dict[str, list[str]]:
        """Return the features of each attribute, its levels or a number, without the option "none"."""
        features, attributes = _dense(self._items.seen_features), {}
        is_product = features[:, names.index(NONE)] == 0.0 if NONE in names else np.ones(len(features), dtype=bool)
        for name in names:
            attribute = name.partition("=")[0]
            own = [other for other in names if other.startswith(f"{attribute}=")]
            values = features[is_product][:, [names.index(other) for other in own]]
            are_levels = len(own) > 1 and np.isin(values, (0.0, 1.0)).all() and (values.sum(axis=1) == 1.0).all()
            if name != NONE:
                attributes.update({attribute: own} if name in own and are_levels else {name: [name]})
        return attributes

    def _centred_levels(self, names: list[str]) -> Array:
        """Return part-worths as rows of effects, a level minus the mean of all levels, shape (d, d)."""
        A = np.eye(len(names))
        for own in self._attributes(names).values():
            rows = [names.index(name) for name in own]
            if len(rows) > 1:
                A[np.ix_(rows, rows)] -= 1.0 / len(rows)
                if NONE in names:
                    A[names.index(NONE), rows] -= 1.0 / len(rows)
        return A

    def _featured(self, features: Array) -> Items:
        """Return items with these features, and without effects."""
        return self._items.described(features, np.full(len(features), -2))

    def _posterior_of_features(self) -> PersonalPosterior:
        assert isinstance(self.posterior_, PersonalPosterior)  # noqa: S101 - type narrowing: checked by `_feature_names`
        return self.posterior_

    def _people(self, users: Any) -> tuple[NDArray[Any], Items]:
        """Return ids and positions of users; None means all who answered."""
        if users is None:
            return self.user_ids_, self._seen(self._users)
        ids, people = self._users.select(users)
        if not people.size:
            raise DataError("users names nobody")
        return ids, people

    def _segments_of(self, users: Any, by: Any, *, new_people: bool) -> dict[Any, Items]:
        """Return the people of each segment."""
        if new_people:
            features = self._users.features
            if features is not None:
                raise DataError("new_people=True needs a model without features of users: pass users=... of interest")
            return {None: Items(None, np.full(POLICY.new_people, -1))}
        ids, people = self._people(users)
        if by is None:
            return {None: people}
        of_user = dict(by.items()) if hasattr(by, "items") else None
        if of_user is None:
            raise DataError(f"by must be a dict from users to segments; got {shorten(by)}")
        rows: dict[Any, list[int]] = {}
        for row, user in enumerate(ids.tolist()):
            segment = of_user.get(user)
            if not isinstance(segment, Hashable):
                raise DataError(f"by: the segment of user {shorten(user)} must be hashable; got {shorten(segment)}")
            if not is_missing(segment):
                rows.setdefault(segment, []).append(row)
        if not rows:
            raise DataError(f"by names none of the users, whose ids are such as {shorten(ids[0])}")
        ordered = sorted(rows.items(), key=lambda part: str(part[0]))
        return {segment: people.take(np.array(own)) for segment, own in ordered}

    def _weights_of(self, people: Items, weights: Any) -> Array:
        """Return the weights of people, shape (n,)."""
        if weights is None:
            return np.ones(people.size)
        of_user = dict(weights.items()) if hasattr(weights, "items") else {}
        ids = self.user_ids_[people.position[people.position >= 0]].tolist()
        lacking = [user for user in ids if user not in of_user]
        if lacking or len(ids) < people.size:
            who = shorten(lacking[0]) if lacking else "one of them, who did not answer,"
            raise DataError(f"weights must be a dict from all users who are asked for to weights; {who} has none")
        values = read_weights([of_user[user] for user in ids], len(ids))
        if not values.sum() > 0.0:
            raise DataError("weights: those of all users in a segment are 0")
        return values

    def _products(self, scenario: list[tuple[Any, Any]], number: int, *, none: bool) -> tuple[list[Any], Items]:
        """Return names and features, or positions, of the products of a scenario."""
        titles = self._titles()
        if none and NONE not in (titles or self._items.vocabulary.ids.tolist()):
            raise DataError(
                "none=True needs 'none' in the model: a feature, which from_tasks(none=...) reads, or an item"
            )
        if none:
            scenario = [*scenario, (NONE, {NONE: 1.0} if titles else NONE)]
        names = [name for name, _ in scenario]
        if len({*map(str, names)}) < len(names) or not names:
            raise DataError(f"products of scenario {number} must have different names; got {shorten(names)}")
        features, position = np.zeros((len(names), len(titles))), np.full(len(names), -1)
        for k, (name, row) in enumerate(scenario):
            if titles and hasattr(row, "keys"):
                features[k] = encode_profile(titles, dict(row), f"product {shorten(name)}")
                continue
            if not isinstance(row, Hashable) or is_missing(row) or (titles and name in self._attributes(titles)):
                wanted = "a dict of its attributes, or the id of an item" if titles else "the id of an item"
                raise DataError(
                    f"product {shorten(name)} must be {wanted}, such as in {{'ours': ...}}; got {shorten(row)}"
                )
            item = self._items.select(objects([row]))[1]
            position[k] = item.position[0]
            if titles:
                features[k] = _dense(item.features)[0, : len(titles)]
        return names, self._items.described(features if titles else None, position)

    def _draws(
        self,
        users: Items,
        items: Items,
        n_samples: int,
        random_state: RandomState,
        posterior: Any = None,
        product: IntArray | None = None,
    ) -> Iterator[Array]:
        """Yield draws of each user's utilities, shape (n_samples, n); all together they are one joint sample."""
        check_n_samples(n_samples)
        posterior = self._group_posterior(None) if posterior is None else posterior
        product, rng = np.arange(items.size) if product is None else product, as_generator(random_state)
        of_users: Iterator[Array] = posterior.draws(users, items, n_samples, rng, product=product)[1]
        return of_users

    def _part_worth_draws(self, n_samples: int, random_state: RandomState) -> Array:
        """Return draws of all users' part-worths, shape (U, n_samples, d)."""
        d = self._items.n_features
        unit = self._featured(np.vstack([np.eye(d), np.zeros(d)]))
        draws = self._draws(self._seen(self._users), unit, n_samples, random_state)
        return np.array([of_user[:, :d] - of_user[:, d:] for of_user in draws])


def _scenarios(products: Any) -> list[list[tuple[Any, Any]]]:
    """Return scenarios, each a list of names of products and their attributes or ids."""
    if isinstance(products, Mapping):
        if products and not any(hasattr(row, "keys") or isinstance(row, Hashable) for row in products.values()):
            raise DataError(f"products must be dicts of attributes, or ids of items; got {shorten(dict(products))}")
        return [list(products.items())]
    refuse_repeated_columns(products, "products")
    frame = as_frame(products)
    if frame is not None:
        rows = frame.rows(named=True)
        index = getattr(products, "index", None)
        names = list(range(len(rows))) if index is None or callable(index) else list(index)
        return [list(zip(names, rows, strict=True))]
    if isinstance(products, str) or not isinstance(products, Sequence | np.ndarray) or not len(products):
        raise DataError(
            f"products must be a dict, a data frame, a list of ids, or a list of these; got {shorten(products)}"
        )
    nested = [isinstance(part, list | np.ndarray) or column_names(part) is not None for part in products]
    if all(nested):
        return [scenario for part in products for scenario in _scenarios(part)]
    if any(nested):
        raise DataError(f"a list of products has ids alone, or scenarios alone; got {shorten(products)}")
    return [[(item, item) for item in products]]


def _dense(features: Any) -> Array:
    """Return features as a dense array."""
    return np.asarray(features.toarray() if sparse.issparse(features) else features)


def _stacked(parts: list[Items]) -> Items:
    """Return items one after the other."""
    features = None if parts[0].features is None else np.vstack([part.features for part in parts])
    return Items(features, np.concatenate([part.position for part in parts]))


def _numbers(scenarios: list[tuple[list[Any], Items]]) -> IntArray:
    """Return a number for each name of a product, for the products of all scenarios, shape (n,)."""
    names = [str(name) for of_scenario, _ in scenarios for name in of_scenario]
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names])


def _chosen_shares(utility: Array, rule: str) -> Array:
    """Return the probability that each product is chosen, given utilities, shape (n_samples, n)."""
    top = utility - utility.max(axis=1, keepdims=True)
    share = np.exp(top) if rule == "logit" else (top == 0.0).astype(np.float64)
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _summary(name: str, draws: Array, credibility: float) -> dict[str, Array]:
    """Return mean, standard deviation and interval of rows of draws, shape (n, n_samples)."""
    low, high = np.quantile(draws, (0.5 - 0.5 * credibility, 0.5 + 0.5 * credibility), axis=1)
    return {name: draws.mean(axis=1), "std": draws.std(axis=1), f"{name}_low": low, f"{name}_high": high}


def _contrasts(attributes: Mapping[str, list[str]], names: list[str]) -> tuple[list[str], Array]:
    """Return what can be bought: features, and levels against the first of their attribute; as rows of part-worths."""
    titles, rows = [], []
    for first, *others in attributes.values():
        for name in others or [first]:
            row = np.zeros(len(names))
            row[names.index(name)] = 1.0
            if others:
                row[names.index(first)] = -1.0
            titles.append(f"{name} against {first.partition('=')[2]}" if others else name)
            rows.append(row)
    return titles, np.array(rows)
