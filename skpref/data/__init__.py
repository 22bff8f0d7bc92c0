"""Tables, ids, comparisons and ratings: from the user's data to checked arrays."""

from skpref.data.choices import TaskRows, from_tasks
from skpref.data.comparisons import Comparisons
from skpref.data.design import OneHotDesign, feature_groups
from skpref.data.frames import (
    from_choices,
    from_counts,
    from_pair_columns,
    from_preflib,
    from_rankings,
    from_results,
    from_win_matrix,
    from_winners,
)
from skpref.data.ids import IdColumn, Vocabulary, as_ids
from skpref.data.ratings import Ratings, from_matrix
from skpref.data.roles import ComparisonRows, Reading
from skpref.data.tables import Table, unique_rows

__all__ = [
    "ComparisonRows",
    "Comparisons",
    "IdColumn",
    "OneHotDesign",
    "Ratings",
    "Reading",
    "Table",
    "TaskRows",
    "Vocabulary",
    "as_ids",
    "feature_groups",
    "from_choices",
    "from_counts",
    "from_matrix",
    "from_pair_columns",
    "from_preflib",
    "from_rankings",
    "from_results",
    "from_tasks",
    "from_win_matrix",
    "from_winners",
    "unique_rows",
]
