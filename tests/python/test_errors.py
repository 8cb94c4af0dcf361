# SPDX-License-Identifier: MIT
"""Tests errors: the class of each code, its message, and pickling between processes."""
import pickle

import pytest

import kiln
from kiln import _abi
from kiln._call import to_error
from kiln._library import library
from kiln.errors import error_of

FAILURES = [code for code in kiln.ErrorCode if code]


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
def test_each_error_code_has_a_separate_class(code):
    error = error_of(int(code), "it failed", "line 1")
    assert type(error) is not kiln.KilnError and isinstance(error, kiln.KilnError)
    assert (error.code, error.text, error.log, str(error)) == (code, "it failed", "line 1",
                                                               "it failed")
    assert sum(type(error_of(int(other), "")) is type(error) for other in FAILURES) == 1


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
def test_error_codes_have_the_names_of_libkiln(code):
    assert library().kiln_error_name(int(code)).decode() == code.name
    assert library().kiln_error_text(int(code))


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
def test_errors_can_be_pickled(code):
    copy = pickle.loads(pickle.dumps(error_of(int(code), "it failed", "line 1")))
    assert type(copy) is type(error_of(int(code), ""))
    assert (copy.code, copy.text, copy.log) == (code, "it failed", "line 1")


def test_an_unknown_error_code_stays_a_number():
    error = error_of(99, "news")
    assert type(error) is kiln.KilnError and error.code == 99
    assert repr(error) == "KilnError(99, 'news')"


def test_libkiln_decides_which_errors_are_retryable():
    assert error_of(kiln.ErrorCode.BUSY, "").retryable
    assert not error_of(kiln.ErrorCode.INVALID, "").retryable


@pytest.mark.parametrize("code,builtin", [
    (kiln.ErrorCode.NOT_FOUND, LookupError), (kiln.ErrorCode.INVALID, ValueError),
    (kiln.ErrorCode.TIMED_OUT, TimeoutError), (kiln.ErrorCode.NO_MEMORY, MemoryError)])
def test_some_errors_are_also_builtin_exceptions(code, builtin):
    with pytest.raises(builtin, match="it failed"):
        raise error_of(int(code), "it failed")


def test_an_error_text_that_is_not_utf8_is_reported():
    error = to_error(_abi.Error(code=2, text=b"bad \xff byte"))
    assert str(error) == "bad \ufffd byte"


def test_the_repr_of_an_error_names_its_code():
    assert repr(error_of(7, "gone")) == "UnavailableError(UNAVAILABLE, 'gone')"
