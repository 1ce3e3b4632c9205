import os
import warnings

import pytest

from prune_engine.metaschedule.quiet import captured_stderr


def test_descriptor_stderr_and_warnings_are_collected_and_restored(capfd):
    with captured_stderr() as captured:
        os.write(2, b"from C\n")
        warnings.warn("a warning", stacklevel=1)
    assert captured.text == "from C\n"
    assert captured.warnings == ("a warning",)
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_an_exception_passes_and_stderr_is_back(capfd):
    with pytest.raises(KeyError), captured_stderr():
        _fail_loudly()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def _fail_loudly():
    os.write(2, b"hidden\n")
    raise KeyError
