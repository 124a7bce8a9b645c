import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import coverage_profiles  # noqa: E402


@pytest.fixture(scope="session")
def all_profiles(tmp_path_factory):
    """Directories of tables that together hold whatever kymo fills."""
    return coverage_profiles.make(tmp_path_factory.mktemp("coverage"))
