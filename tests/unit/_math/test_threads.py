"""Which libraries of linear algebra are limited."""

import pytest

from skpref._math import threads


@pytest.mark.parametrize(
    ("path", "is_numpys"),
    [
        ("/env/lib/python3/site-packages/numpy.libs/libopenblas.so", True),
        ("/env/numpy/.dylibs/libopenblas.dylib", True),
        ("/env/lib/python3/site-packages/scipy.libs/libopenblas.so", False),
        ("/env/lib/python3/site-packages/scipy/.dylibs/libopenblas.dylib", False),
        ("/env/lib/libmkl_rt.so", False),
        ("/a/b/numpy/core/lib/libblas.so", False),
        ("/a/b/c/numpy.libs/env/lib/libopenblas.so", False),  # a folder further up
    ],
)
def test_numpys_own_library_is_known_by_its_folder(path, *, is_numpys):
    assert threads._is_numpys(path) is is_numpys
