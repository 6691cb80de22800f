"""A missing optional library is one line that says what to install."""

from __future__ import annotations

import pytest

from chunkloom.errors import MissingExtraError
from chunkloom.kernels.optional import optional_module


def test_a_missing_library_names_the_install_command() -> None:
    with pytest.raises(MissingExtraError) as caught:
        optional_module("no_such_package_here", "segmentation", "AffinityPostprocessor")
    assert str(caught.value).startswith("AffinityPostprocessor needs the package no_such_package_here")
    assert str(caught.value).endswith("pip install 'chunkloom[segmentation]'")
