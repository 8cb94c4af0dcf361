# SPDX-License-Identifier: MIT
"""Tests plans, prefetching and solutions."""
import dataclasses

import pytest

import kiln
from conftest import TARGET
from kiln.plan import to_options


def test_a_plan_has_kernels_and_launches(client, compiler, problem):
    plan = client.plan(problem, TARGET)
    assert plan.solver and plan.toolchain and plan.toolchain_identity
    assert plan.source == kiln.PlanSource.HEURISTIC and plan.expected_ms == 0
    assert plan.launches and plan.objects and plan.plan_ns > 0
    for launch in plan.launches:
        assert launch.kernel and 0 <= launch.object < len(plan.objects)
        assert all(size > 0 for size in launch.grid + launch.group)
    for made in plan.objects:
        assert made.kernel.key == made.key and len(made.kernel) == made.size
        assert bytes(made.kernel).startswith(b"\x7fELF")


def test_a_plans_kernels_outlive_it_and_the_client(daemon, compiler, problem):
    with kiln.Client(daemon.socket) as client:
        kernel = client.plan(problem, TARGET).objects[0].kernel
    assert bytes(kernel).startswith(b"\x7fELF")


def test_a_solver_can_be_forced(client, compiler, problem):
    plan = client.plan(problem, TARGET, solver="ConvDirectNaive")
    assert plan.solver == "ConvDirectNaive"
    with pytest.raises(kiln.KilnError):
        client.plan(problem, TARGET, solver="NoSuchSolver")


def test_a_plan_without_objects_has_only_their_names(client, compiler, problem):
    plan = client.plan(problem, TARGET, objects=False)
    assert [made.kernel for made in plan.objects] == [None] * len(plan.objects)
    assert all(len(made.key) == 64 and made.size > 0 for made in plan.objects)


def test_a_batch_of_plans_is_answered_in_order(client, compiler, problem):
    problems = [problem, dataclasses.replace(problem, groups=3), dataclasses.replace(problem, n=1)]
    told = []
    plans = client.plan_batch(problems, TARGET, ready=lambda i, p: told.append(i))
    assert isinstance(plans[0], kiln.Plan) and isinstance(plans[2], kiln.Plan)
    assert isinstance(plans[1], kiln.InvalidError)
    assert sorted(told) == [0, 1, 2]


def test_a_batch_of_nothing_is_nothing(client):
    assert client.plan_batch([], TARGET) == []


def test_an_exception_of_the_callback_ends_the_batch(client, compiler, problem):
    def ready(index, plan):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.plan_batch([problem] * 3, TARGET, ready=ready)


def test_prefetched_kernels_are_cached_afterwards(client, compiler, problem):
    wanted = [dataclasses.replace(problem, direction=d) for d in kiln.Direction]
    plans = client.prefetch(wanted, TARGET)
    assert len(plans) == 3
    for plan in plans:
        assert all(made.kernel is None for made in plan.objects)
        for made in plan.objects:
            assert len(client.fetch(made.key)) == made.size


def test_prefetches_wait_behind_interactive_requests(client, compiler, problem, monkeypatch):
    asked = []
    original = kiln.plan.to_options

    def noting(*arguments, **options):
        asked.append(original(*arguments, **options))
        return asked[-1]

    monkeypatch.setattr(kiln.plan, "to_options", noting)
    client.prefetch([problem], TARGET)
    client.plan_batch([problem], TARGET)
    assert [(o.priority, o.no_objects) for o in asked] == [(1, 1), (0, 0)]


def test_a_malformed_target_is_refused(client, problem):
    with pytest.raises(kiln.KilnError):
        client.plan(problem, "no such target")
    with pytest.raises(kiln.InvalidError, match="NUL"):
        client.plan(problem, "gfx90a\0")


def test_a_plan_accepts_only_a_problem_object(client):
    with pytest.raises(TypeError, match="kiln.Problem"):
        client.plan("conv -n 1", TARGET)


def test_solutions_name_every_solver_that_applies(client, compiler, problem):
    solutions = client.solutions(problem, TARGET)
    assert "ConvDirectNaive" in [s.solver for s in solutions]
    for solution in solutions:
        assert solution.algorithm.startswith("miopenConvolution")
        assert solution.find_ms == 0 and solution.best_config == ""


def test_devices_are_listed_with_the_reason_why_they_are_unusable():
    found = kiln.devices()
    assert {d.name.split(":")[0] for d in found} == {"hip", "cuda", "opencl"}
    for device in found:
        if device.why_not is None:
            assert ":" in device.name and device.target and device.database_id
        else:
            assert isinstance(device.why_not, kiln.KilnError) and str(device.why_not)


@pytest.fixture
def opencl(tmp_path, monkeypatch):
    """An OpenCL device. The client's thread measures nothing."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    monkeypatch.setenv("KILN_SOON_BUDGET", "0")
    try:
        return kiln.Device("opencl:0")
    except kiln.KilnError as error:
        pytest.skip(f"no OpenCL device here: {error}")


def test_a_provisional_plan_has_a_generation(client, opencl, problem):
    assert client.generation == 0
    soon = client.find_soon(problem, opencl)
    assert soon.generation == client.generation == 1
    assert soon.plan.solver and soon.plan.objects
    assert not soon.refresh() and not soon.is_tuned


def test_a_frozen_plan_is_final(client, opencl, problem):
    soon = client.find_soon(problem, opencl, frozen=True)
    assert soon.generation == client.generation == 0
    assert not soon.refresh()
    assert soon.plan.source == kiln.PlanSource.HEURISTIC


def test_generic_kernels_stand_in_for_others(client, compiler, problem):
    client.plan(problem, TARGET, solver="ConvGeneric", objects=False)
    wider = dataclasses.replace(problem, k=problem.k + 1)
    plan = client.plan(wider, TARGET, generic=True)
    assert (plan.solver, plan.source) == ("ConvGeneric", kiln.PlanSource.GENERIC)


def test_a_request_may_leave_packages_out():
    asked = [to_options(TARGET, database_id=None, toolchain=None, driver=None, timeout=None,
                        packages=packages).no_packages for packages in (True, False)]
    assert asked == [0, 1]


def test_a_plan_may_come_from_a_similar_problem(client, compiler, problem):
    measured = kiln.Measurement("ConvDirectNaive", median_ms=0.5, spread_ms=0.01, samples=3,
                                algorithm="miopenConvolutionFwdAlgoDirect")
    client.find_put(problem, kiln.Recording("gfx90a68", [measured]))
    larger = dataclasses.replace(problem, n=problem.n + 7)
    plan = client.plan(larger, "gfx90a", database_id="gfx90a68", nearest=True, objects=False)
    assert (plan.solver, plan.source) == ("ConvDirectNaive", kiln.PlanSource.NEAREST)
