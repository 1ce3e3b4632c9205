"""tune_tir and tune_relax as drop-ins: TVM's builder, runner and database, and code that applies the result."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, NothingMeasuredError, ProfileError, TargetError

PLAIN = EngineConfig(transfer=False, prior="none")
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


@pytest.fixture
def dummies(ms: Any) -> dict[str, Any]:
    """A builder and a runner that do nothing, and say random latencies."""
    from tvm.s_tir.meta_schedule.testing.dummy_object import DummyBuilder, DummyRunner

    # No artefacts are made, so none can be removed.
    callbacks = [ms.measure_callback.AddToDatabase()]
    return {"builder": DummyBuilder(), "runner": DummyRunner(), "config": PLAIN, "measure_callbacks": callbacks}


@pytest.fixture(scope="module")
def matmul(tvm: Any) -> Any:
    from tvm import te

    a, b = te.placeholder((32, 32), name="a"), te.placeholder((32, 32), name="b")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return te.create_prim_func([a, b, c])


@pytest.fixture(scope="module")
def network(tvm: Any) -> Any:
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((16, 32), "float32"))
    w = relax.const(np.ones((32, 24), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, w))
            out = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(out)
    mod = builder.finalize()
    return tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )(mod)


def test_one_line_changes(tvm: Any, ms: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path) -> None:
    """The database is TVM's, on disk, and compile_tir finds the best of it."""
    from prune_engine.metaschedule import tune_tir

    target = tvm.target.Target(TARGET)
    database = tune_tir(matmul, target, str(tmp_path), 12, num_trials_per_iter=6, seed=1, **dummies)
    assert len(database) == 12
    schedule = ms.tir_integration.compile_tir(database, matmul, target)
    assert schedule is not None
    assert tvm.compile(schedule.mod, target=target)
    assert len(ms.database.JSONDatabase(work_dir=str(tmp_path))) == 12


def test_it_goes_on_where_an_earlier_run_ended(
    tvm: Any, ms: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path
) -> None:

    from prune_engine.metaschedule import tune_tir

    for _ in range(2):
        tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 6, num_trials_per_iter=6, seed=1, **dummies)
    records = ms.database.JSONDatabase(work_dir=str(tmp_path)).get_all_tuning_records()
    # No decisions twice. Programs may be equal where decisions differ: those of an earlier run are not made again.
    assert len({str(r.trace) for r in records}) == len(records) == 12


def test_one_seed_gives_one_search(tvm: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path) -> None:
    from prune_engine.metaschedule import tune_tir

    def found(name: str, seed: int) -> list[str]:
        target, folder = tvm.target.Target(TARGET), tmp_path / name
        database = tune_tir(matmul, target, folder, 8, num_trials_per_iter=8, seed=seed, **dummies)
        return sorted(str(record.trace) for record in database.get_all_tuning_records())

    assert found("a", 1) == found("b", 1) != found("c", 2)


def test_relax(tvm: Any, ms: Any, network: Any, dummies: dict[str, Any], tmp_path: Path) -> None:
    from prune_engine.metaschedule import tune_relax

    target = tvm.target.Target(TARGET)
    database = tune_relax(network, {}, target, tmp_path, 8, num_trials_per_iter=4, seed=1, **dummies)
    assert len(database) == 8
    with target, database, tvm.transform.PassContext(opt_level=3):
        applied = tvm.relax.transform.MetaScheduleApplyDatabase()(network)
    assert any(func.attrs and "tirx.is_scheduled" in func.attrs for func in applied.functions.values())


def test_several_functions_and_a_limit_per_task(
    tvm: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path
) -> None:
    from prune_engine.metaschedule import tune_tir

    other = matmul.with_attr("global_symbol", "other")
    mod = tvm.IRModule({"main": matmul, "other": other})
    database = tune_tir(
        mod, tvm.target.Target(TARGET), tmp_path, 40, max_trials_per_task=4, num_trials_per_iter=4, **dummies
    )
    assert len(database) == 8


def test_tvms_own_search_gets_our_cost_model(
    tvm: Any, ms: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prune_engine.metaschedule import PruneEngineCostModel, drop_in

    given: list[Any] = []

    def tuned(*_: Any, **options: Any) -> Any:
        given.append(options)
        return ms.database.MemoryDatabase()

    monkeypatch.setattr(ms, "tune_tir", tuned)
    drop_in.tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 4, strategy="evolutionary", **dummies)
    drop_in.tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 4, strategy="evolutionary", cost_model="xgb")
    assert isinstance(given[0]["cost_model"], PruneEngineCostModel)
    assert (given[0]["strategy"], given[1]["cost_model"]) == ("evolutionary", "xgb")


def test_parameters_are_tvms(ms: Any) -> None:
    """All that TVM's functions take, in their order and with their defaults, but for strategy and cost model."""
    from prune_engine.metaschedule import tune_relax, tune_tir

    for ours, theirs in ((tune_tir, ms.tune_tir), (tune_relax, ms.relax_integration.tune_relax)):
        wanted = inspect.signature(theirs).parameters
        got = inspect.signature(ours).parameters
        assert list(got)[: len(wanted)] == list(wanted)
        assert list(got)[len(wanted) :] == ["profile", "config", "store"]
        for name, parameter in wanted.items():
            assert got[name].kind == parameter.kind
            if name not in ("strategy", "cost_model"):
                assert got[name].default == parameter.default


@pytest.mark.parametrize(
    ("target", "kind", "has"),
    [
        ("native", "llvm", "mcpu"),
        ("llvm -mcpu=skylake-avx512", "llvm", "mcpu"),
        ("cuda/a100", "cuda", "arch"),
        ("nvidia/nvidia-a100", "cuda", "arch"),
        ("llvm", "llvm", "kind"),
    ],
)
def test_targets_as_text(
    tvm: Any, ms: Any, matmul: Any, monkeypatch: pytest.MonkeyPatch, target: str, kind: str, has: str
) -> None:
    from prune_engine.metaschedule import drop_in

    given: list[Any] = []
    monkeypatch.setattr(ms, "tune_tir", lambda *args, **options: given.append((args[1], options["strategy"])))
    drop_in.tune_tir(matmul, target, "folder", 4)
    made, strategy = given[0]
    assert isinstance(made, tvm.target.Target)
    assert str(made.kind.name) == kind
    assert has in str(made)
    if "a100" in target:
        assert strategy._options.profile.name.startswith("nvidia-a100"), "TVM forgets the name"


def test_a_target_that_there_is_not(matmul: Any, tmp_path: Path) -> None:
    from prune_engine.metaschedule import tune_tir

    with pytest.raises(TargetError, match="TVM does not know this target"):
        tune_tir(matmul, "vax", tmp_path, 4)


def test_a_profile_of_another_kind(tvm: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path) -> None:
    from prune_engine.metaschedule import tune_tir

    with pytest.raises(ProfileError, match="another kind of device"):
        tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 4, profile="nvidia-t4", **dummies)


@pytest.mark.parametrize("wrong", ["mod", "target", "work_dir"])
def test_what_tvm_would_trip_over_is_told(tvm: Any, matmul: Any, tmp_path: Path, wrong: str) -> None:
    from prune_engine.metaschedule import tune_relax, tune_tir

    (tmp_path / "file").touch()
    right = {"mod": matmul, "target": tvm.target.Target(TARGET), "work_dir": tmp_path}
    given = {**right, wrong: {"mod": "x", "target": None, "work_dir": tmp_path / "file"}[wrong]}
    with pytest.raises(ConfigError, match=rf"^{wrong}: "):
        tune_tir(**given, max_trials_global=4)
    with pytest.raises(ConfigError, match=r"^mod: is no program.*a Relax function"):
        tune_relax(**{**given, "mod": 5}, params=None, max_trials_global=4)


def test_a_store_for_somebody_elses_search(tvm: Any, matmul: Any, tmp_path: Path) -> None:
    from prune_engine.metaschedule import tune_tir

    with pytest.raises(ConfigError, match="a store is of no use to another strategy"):
        tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 4, strategy="replay-trace", store="x.sqlite3")


def test_nothing_that_can_be_built(tvm: Any, ms: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path) -> None:
    from tvm.ir.utils import derived_object

    from prune_engine.metaschedule import tune_tir

    @derived_object
    class Broken(ms.builder.PyBuilder):  # type: ignore[misc,name-defined]
        def build(self, build_inputs: Any) -> Any:
            return [ms.builder.BuilderResult(None, "killed after 30 seconds") for _ in build_inputs]

    options = {**dummies, "builder": Broken()}
    with pytest.raises(NothingMeasuredError, match=r"not one of 4 schedules.*killed after 30 seconds"):
        tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 4, num_trials_per_iter=4, **options)
    with pytest.raises(NothingMeasuredError, match=r"not one of 4 schedules"):  # nor by TVM's own strategies
        tune_tir(matmul, tvm.target.Target(TARGET), tmp_path / "new", 4, strategy="replay-trace", **options)


def test_the_builders_processes_are_prepared(ms: Any) -> None:
    """They only build: parsing intrinsics is spared them."""
    from prune_engine.metaschedule._compat import prepare_builder
    from prune_engine.metaschedule.drop_in import _builder

    made: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ms.builder, "LocalBuilder", lambda **options: made.append(options))
        _builder("local", 3)
    assert made == [{"max_workers": 3, "initializer": prepare_builder}]
    assert _builder("mine", 3) == "mine"


def test_looking_at_the_package_imports_no_compiler() -> None:
    code = "import prune_engine.metaschedule as m, sys; assert 'tune_tir' in m.__all__; print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_name_that_the_package_has_not() -> None:
    import prune_engine.metaschedule as package

    with pytest.raises(AttributeError, match="no attribute 'tune_tri'"):
        package.tune_tri  # noqa: B018


def test_a_handler_without_a_name_on_tvms_logger(
    tvm: Any, matmul: Any, dummies: dict[str, Any], tmp_path: Path
) -> None:
    """TVM's own function fails over it."""
    from prune_engine.metaschedule import tune_tir

    logger, mine = logging.getLogger("tvm.s_tir.meta_schedule"), logging.NullHandler()
    logger.addHandler(mine)
    try:
        tune_tir(matmul, tvm.target.Target(TARGET), tmp_path, 1, **dummies)
        assert mine in logger.handlers
    finally:
        logger.removeHandler(mine)
