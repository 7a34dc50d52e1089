"""What the tests of logs share."""

import pytest

from minitensor.search import Log


@pytest.fixture
def log(tmp_path):
    """A log without a file yet."""
    return Log(tmp_path / "tuning.jsonl")
