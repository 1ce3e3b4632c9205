"""What the rules of the task space cost: per task, and for all convolutions of a ResNet-50.

Run it by hand: ``python tests/benchmarks/rules_speed.py``. Spaces are made here, without a compiler: three sketches
a task, as TVM's for a CPU (SSRSRS) and a GPU (SSSRRSRS), with as large choice tables. Wanted are less than 1 ms a
task and less than 50 ms for the whole model.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from kits.rules import tile, with_nests
from prune_engine_rules import register_rules

from prune_engine.config import EngineConfig
from prune_engine.funnel import Funnel
from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, Sketch
from prune_engine.testing import make_profile, make_task

_REPEATS = 20
#: The distinct convolutions of a ResNet-50 at 224 x 224: output channels, input channels, output size, window.
RESNET50 = (
    *((64, 3, 112, 7), (64, 64, 56, 1), (64, 64, 56, 3), (256, 64, 56, 1), (64, 256, 56, 1), (128, 256, 56, 1)),
    *((128, 128, 28, 3), (512, 128, 28, 1), (512, 256, 28, 1), (128, 512, 28, 1), (256, 512, 28, 1)),
    *((256, 256, 14, 3), (1024, 256, 14, 1), (1024, 512, 14, 1), (256, 1024, 14, 1), (512, 1024, 14, 1)),
    *((512, 512, 7, 3), (2048, 512, 7, 1), (2048, 1024, 7, 1), (512, 2048, 7, 1)),
    *((128, 128, 56, 3), (256, 256, 28, 3), (512, 512, 14, 3), (1000, 2048, 1, 1)),
)
_LEVELS = {DeviceKind.CPU: ("S0 S1 S2 S3", "R0 R1"), DeviceKind.GPU: ("S0 S1 S2 S3 S4", "R0 R1 R2")}


def convolution(kind: DeviceKind, shape: tuple[int, int, int, int]) -> DesignSpace:
    """A space of three sketches of a convolution in NCHW."""
    out, channels, size, window = shape
    spatial, reduction = _LEVELS[kind]
    variables = (
        tile("n", 1, spatial),
        tile("co", out, spatial),
        tile("h", size, spatial),
        tile("w", size, spatial, is_contiguous=True),
        tile("ci", channels, reduction),
        tile("kh", window, reduction),
        tile("kw", window, reduction),
    )
    task = replace(make_task(f"conv{shape}"), arg_shapes=((1, channels, size, size), (1,), (1, out, size, size)))
    sketches = (with_nests(Sketch(i, f"s{i}", variables)) for i in range(3))
    return DesignSpace(task, tuple(sketches))


def pipeline_of(profile: HardwareProfile) -> Pipeline:
    """The rules in the engine's order, and the simplest of all else."""
    from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

    def fail(strategy: object, error: BaseException) -> None:
        raise error

    return Pipeline(
        rules=tuple(register_rules()),
        draft_scorer=None,
        verifier=None,
        selector=EpsilonGreedySelector(0.0),
        profile=profile,
        config=EngineConfig(),
        on_failure=fail,
    )


def main() -> None:
    """Print milliseconds per task and per model."""
    for kind in _LEVELS:
        pipeline = pipeline_of(make_profile(kind))
        spaces = [convolution(kind, shape) for shape in RESNET50]
        costs: list[list[float]] = [[] for _ in spaces]
        funnel = Funnel()
        for _ in range(_REPEATS):
            for number, space in enumerate(spaces):
                started = time.perf_counter()
                pipeline.restrict(space, funnel)
                costs[number].append(time.perf_counter() - started)
        per_task = [statistics.median(c) * 1e3 for c in costs]
        print(
            f"{kind.value}: {statistics.median(per_task):.3f} ms a task (largest {max(per_task):.3f}),"
            f" {sum(per_task):.2f} ms for {len(spaces)} convolutions"
        )
        for step in funnel.steps:
            print(f"  {step.strategy}: {step.seconds / _REPEATS / len(spaces) * 1e3:.3f} ms a task")


if __name__ == "__main__":
    main()
