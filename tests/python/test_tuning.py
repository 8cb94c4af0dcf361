# SPDX-License-Identifier: MIT
"""Tests tuning records: records some, then reads them one by one and in batches."""
import dataclasses
import itertools
import time

import pytest

import kiln
from conftest import DATABASE_ID

CONFIG = "128,64,8"
batch_sizes = itertools.count(16)


def recording(*measurements, **other):
    return kiln.Recording(database_id=DATABASE_ID, measurements=measurements,
                          device_uuid="GPU-1", device="A device", driver="driver 1",
                          toolchain="toolchain 1", clock_mhz=1700, **other)


def found(solver="ConvWinograd", median_ms=1.5, **other):
    return kiln.Measurement(solver=solver, algorithm="miopenConvolutionFwdAlgoWinograd",
                            median_ms=median_ms, spread_ms=0.125, samples=9, workspace=4096,
                            **other)


@pytest.fixture
def own(problem):
    """Returns a problem that no other test uses."""
    return dataclasses.replace(problem, n=next(batch_sizes))


def test_an_unrecorded_problem_has_no_record(client, own):
    with pytest.raises(kiln.NotFoundError):
        client.find_get(own, DATABASE_ID)
    with pytest.raises(kiln.NotFoundError):
        client.perf_get(own, DATABASE_ID)
    assert client.find_get_batch([own], DATABASE_ID) == [None]


def test_a_find_record_comes_back(client, own):
    client.find_put(own, recording(found(), found("ConvDirectNaive", 3.0)))
    tuned = client.find_get(own, DATABASE_ID)
    assert tuned.tier == kiln.TuningTier.USER and not tuned.is_stale and not tuned.is_near
    assert (tuned.batch_distance, tuned.spatial_distance) == (1, 1)
    assert tuned.key and "ConvWinograd" in tuned.text
    times = {e.solver: (e.time_ms, e.workspace, e.algorithm) for e in tuned.entries}
    assert times == {"ConvWinograd": (1.5, 4096, "miopenConvolutionFwdAlgoWinograd"),
                     "ConvDirectNaive": (3.0, 4096, "miopenConvolutionFwdAlgoWinograd")}


def test_a_perf_record_comes_back(client, own):
    client.perf_put(own, recording(kiln.Measurement(solver="ConvImplicitGemm", params=CONFIG,
                                                    median_ms=0.75)))
    entry, = client.perf_get(own, DATABASE_ID).entries
    assert (entry.solver, entry.params) == ("ConvImplicitGemm", CONFIG)


def test_a_measurement_reports_its_device_driver_and_library(client, own):
    client.find_put(own, recording(found(), library="test 1"))
    assert client.find_get(own, DATABASE_ID).entries[0].samples == 0
    entry, = client.find_get(own, DATABASE_ID, measurements=True).entries
    assert (entry.samples, entry.median_ms, entry.spread_ms) == (9, 1.5, 0.125)
    assert (entry.device_uuid, entry.device, entry.driver, entry.toolchain, entry.library,
            entry.clock_mhz) == ("GPU-1", "A device", "driver 1", "toolchain 1", "test 1", 1700)
    assert abs(entry.measured_at - time.time()) < 3600


def test_a_record_of_another_driver_is_stale(client, own):
    client.find_put(own, recording(found()))
    assert not client.find_get(own, DATABASE_ID, driver="driver 1").is_stale
    assert client.find_get(own, DATABASE_ID, driver="driver 2").is_stale


def test_a_near_record_answers_if_allowed(client, own):
    near = dataclasses.replace(own, c=16, k=16)  # numbers of channels that no other test uses
    client.find_put(near, recording(found()))
    asked = dataclasses.replace(near, n=near.n * 2)
    with pytest.raises(kiln.NotFoundError):
        client.find_get(asked, DATABASE_ID)
    tuned = client.find_get(asked, DATABASE_ID, nearest=True)
    assert tuned.is_near and tuned.batch_distance == 2 and tuned.spatial_distance == 1


def test_a_batch_of_tuning_questions_is_answered_in_order(client, own):
    problems = [dataclasses.replace(own, k=8 * (i + 1)) for i in range(5)]
    for i in (0, 3):
        client.find_put(problems[i], recording(found(median_ms=i + 1.0)))
        client.perf_put(problems[i], recording(kiln.Measurement(
            solver="ConvImplicitGemm", params=str(i), median_ms=1.0)))
    times = [t and t.entries[0].time_ms for t in client.find_get_batch(problems, DATABASE_ID)]
    assert times == [1.0, None, None, 4.0, None]
    params = [t and t.entries[0].params for t in client.perf_get_batch(problems, DATABASE_ID)]
    assert params == ["0", None, None, "3", None]
    assert client.find_get_batch([], DATABASE_ID) == []


@pytest.mark.parametrize("wrong", [
    {"measurements": [found(median_ms=-1.0)]}, {"measurements": [found()], "tier": 1},
    {"measurements": []}, {"measurements": [found(solver="two words")]}])
def test_an_invalid_tuning_record_is_refused(client, own, wrong):
    with pytest.raises(kiln.KilnError) as caught:
        client.find_put(own, dataclasses.replace(recording(found()), **wrong))
    assert caught.value.text
    with pytest.raises(kiln.NotFoundError):
        client.find_get(own, DATABASE_ID)


@pytest.mark.parametrize("wrong", [{"samples": -1}, {"samples": 2**32}, {"workspace": 2**64}])
def test_numbers_that_exceed_their_type_are_refused(client, own, wrong):
    with pytest.raises(kiln.InvalidError, match=next(iter(wrong))):
        client.find_put(own, recording(dataclasses.replace(found(), **wrong)))


def test_plans_use_recorded_perf_configs(client, compiler, own):
    client.find_put(own, recording(
        kiln.Measurement(solver="ConvDirectNaive", algorithm="miopenConvolutionFwdAlgoDirect",
                         median_ms=0.5)))
    plan = client.plan(own, "gfx90a", database_id=DATABASE_ID, objects=False)
    assert (plan.solver, plan.source, plan.expected_ms) == \
        ("ConvDirectNaive", kiln.PlanSource.FIND, 0.5)
    plan = client.plan(own, "gfx90a", database_id=DATABASE_ID, objects=False, heuristic=True)
    assert plan.source == kiln.PlanSource.HEURISTIC
    recorded = {s.solver: s.find_ms for s in client.solutions(own, "gfx90a",
                                                              database_id=DATABASE_ID)}
    assert recorded["ConvDirectNaive"] == 0.5
