# SPDX-License-Identifier: MIT
"""Tests problems from keyword arguments and from MIOpenDriver's lines."""
import dataclasses
import pickle

import pytest

import kiln

LINE = ("./bin/MIOpenDriver convfp16 -n 64 -c 64 -H 56 -W 48 -k 128 -y 3 -x 5 -p 1 -q 2 -u 2 -v 1 "
        "-F 6")


def test_a_driver_line_gives_its_problems():
    data, weights = kiln.Problem.from_driver(LINE)
    assert data == kiln.Problem(n=64, c=64, k=128, input=(56, 48), filter=(3, 5), pad=(1, 2),
                                stride=(2, 1), type=kiln.DataType.FLOAT16,
                                direction=kiln.Direction.BACKWARD_DATA)
    assert weights == dataclasses.replace(data, direction=kiln.Direction.BACKWARD_WEIGHTS)


@pytest.mark.parametrize("problem", [
    kiln.Problem(n=1, c=4, k=8, input=(8, 9), filter=(3, 2), pad=1, groups=2, dilation=(1, 2)),
    kiln.Problem(n=2, c=4, k=8, input=(7, 8, 9), filter=(1, 2, 3), stride=(1, 2, 1)),
    kiln.Problem(n=2, c=4, k=8, input=[8, 8], filter=1, type=kiln.DataType.BFLOAT16,
                 x_layout=kiln.Layout.CHANNELS_LAST, w_layout=kiln.Layout.CHANNELS_LAST,
                 y_layout=kiln.Layout.CHANNELS_LAST, direction=kiln.Direction.BACKWARD_DATA),
    kiln.Problem(n=2, c=4, k=8, input=[8, 8], filter=1, allow_tf32=True)])
def test_a_problem_survives_conversion_to_a_driver_line(problem):
    assert kiln.Problem.from_driver(problem.to_driver()) == [problem]


def test_only_fp32_allows_tf32():
    half = kiln.Problem(n=1, c=1, k=1, input=(9, 8), filter=3, type=kiln.DataType.FLOAT16,
                        allow_tf32=True)
    assert not half.allow_tf32


def test_one_number_sets_all_dimensions_of_a_problem():
    problem = kiln.Problem(n=1, c=1, k=1, input=(9, 8, 7), filter=3, pad=1)
    assert problem.filter == (3, 3, 3)
    assert problem.pad == (1, 1, 1)
    assert problem.stride == problem.dilation == (1, 1, 1)


def test_a_problem_knows_the_sizes_of_its_tensors(problem):
    assert problem.output == (8, 8)
    assert problem.tensor_size(kiln.Tensor.X) == (2 * 4 * 8 * 8, 2 * 4 * 8 * 8 * 4)
    assert problem.tensor_size(kiln.Tensor.W) == (8 * 4 * 9, 8 * 4 * 9 * 4)
    assert kiln.Problem(n=1, c=1, k=1, input=(5, 6, 7), filter=(1, 2, 3)).output == (5, 5, 5)
    with pytest.raises(kiln.InvalidError, match="no tensor 7"):
        problem.tensor_size(7)


def test_problems_are_values(problem):
    same = dataclasses.replace(problem)
    assert same == problem and hash(same) == hash(problem) and same is not problem
    assert pickle.loads(pickle.dumps(problem)) == problem
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.n = 3


@pytest.mark.parametrize("wrong,words", [
    ({"input": (8,)}, "height and width"),
    ({"input": (1, 1, 8, 8)}, "height and width"),
    ({"filter": (3, 3, 3)}, "2 dimensions"),
    ({"n": -1}, "n is -1"),
    ({"k": 2**32}, "k is 4294967296"),
    ({"pad": (0, -1)}, "pad is -1"),
    ({"type": 77}, "type is not a valid DataType: 77"),
    ({"x_layout": 2}, "x_layout is not a valid Layout"),
    ({"direction": 3}, "direction is not a valid Direction")])
def test_an_invalid_problem_is_refused_at_construction(wrong, words):
    with pytest.raises(kiln.InvalidError, match=words):
        kiln.Problem(**{"n": 1, "c": 1, "k": 1, "input": (8, 8), "filter": 1, **wrong})


def test_a_problem_refuses_fractional_sizes():
    with pytest.raises(TypeError):
        kiln.Problem(n=1.5, c=1, k=1, input=(8, 8), filter=1)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"groups": 3}, {"filter": 9}, {"stride": 0}])
def test_check_refuses_an_inconsistent_problem(wrong):
    problem = kiln.Problem(**{"n": 1, "c": 4, "k": 8, "input": (8, 8), "filter": 3, **wrong})
    with pytest.raises(kiln.InvalidError) as caught:
        problem.check()
    assert caught.value.text


def test_check_accepts_a_valid_problem(problem):
    problem.check()


def test_a_driver_line_has_options_beyond_its_problems():
    line = kiln.DriverLine.parse(LINE + " -i 7 -V 0 -t 1 -s 1 -S ConvDirectNaive")
    assert len(line.problems) == 2
    assert (line.iterations, line.verify, line.time, line.wall, line.search, line.transposed,
            line.solver) == (7, False, True, False, True, False, "ConvDirectNaive")


def test_driver_words_equal_a_driver_line():
    assert kiln.DriverLine.parse(LINE.split()) == kiln.DriverLine.parse(LINE)


@pytest.mark.parametrize("line,error", [
    ("", kiln.NotFoundError), ("# a comment", kiln.NotFoundError),
    ("conv --no-such-flag 1", kiln.InvalidError), ("conv -n many", kiln.InvalidError),
    ("conv -n 1\0 -c 2", kiln.InvalidError), ("conv \ud800", kiln.InvalidError)])
def test_a_line_that_is_not_a_driver_line_is_refused(line, error):
    with pytest.raises(error):
        kiln.Problem.from_driver(line)


def test_a_driver_line_must_be_a_str():
    with pytest.raises(TypeError, match="must be str"):
        kiln.DriverLine.parse([b"conv"])
