import inspect

import pytest

from skpref import exceptions
from skpref.exceptions import (
    CheckpointError,
    CheckpointWarning,
    DataError,
    DataWarning,
    MissingExtraError,
    ModelFormatError,
    SkprefError,
    TrackingWarning,
    UnknownIdError,
)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (DataError, (SkprefError, ValueError)),
        (UnknownIdError, (DataError, SkprefError, ValueError)),
        (ModelFormatError, (SkprefError, ValueError)),
        (CheckpointError, (SkprefError, ValueError)),
        (MissingExtraError, (SkprefError, ImportError)),
        (CheckpointWarning, (UserWarning,)),
        (DataWarning, (UserWarning,)),
        (TrackingWarning, (UserWarning,)),
    ],
)
def test_every_class_stands_where_the_tree_draws_it(error, parents):
    assert all(issubclass(error, parent) for parent in parents)


def test_the_tree_at_the_top_names_every_class():
    classes = {name for name, value in vars(exceptions).items() if inspect.isclass(value)}
    assert classes == set(exceptions.__all__)
    assert all(name in (exceptions.__doc__ or "") for name in classes)


def test_warnings_are_not_errors_of_ours():
    assert not issubclass(DataWarning, SkprefError)
    assert not issubclass(TrackingWarning, SkprefError)
