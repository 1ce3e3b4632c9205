import json
import re

import pytest

from prune_engine.errors import TargetError
from prune_engine.metaschedule.targets import architecture_of, resolve_target, threads_of


@pytest.mark.parametrize("text", ["native", "auto", "llvm"])
def test_words_for_this_machine_name_its_processor_and_the_threads(text):
    target = json.loads(resolve_target(text, 3))
    assert target["kind"] == "llvm"
    assert target["num-cores"] == 3
    assert target["mcpu"]


def test_old_option_form_and_json_give_the_same_canonical_text():
    old = resolve_target("llvm -mcpu=skylake-avx512 -num-cores=2", 2)
    new = resolve_target('{"num-cores": 2, "mcpu": "skylake-avx512", "kind": "llvm"}', 2)
    assert old == new
    assert list(json.loads(old)) == sorted(json.loads(old))


@pytest.mark.parametrize(
    "text", ["native", '{"kind":"llvm"}', "llvm -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu", "nvidia/nvidia-a100"]
)
def test_canonical_text_resolves_to_itself(text):
    once = resolve_target(text, 2)
    assert resolve_target(once, 2) == once


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("foo", "kind out of .*llvm"),
        ("", "kind out of"),
        ("{bad", "JSON cannot be read"),
        ("llvm mcpu", "-name=value"),
        ('{"kind":"llvm","mcpu":"skylak"}', "'skylak'.*skylake"),
        ("llvm -mtriple=pdp11-dec-unix", "pdp11.*x86_64"),
        ('{"kind":"llvm","colour":"red"}', "colour"),
    ],
)
def test_what_the_compiler_does_not_know_is_refused_with_what_it_knows(text, says, capfd):
    with pytest.raises(TargetError) as error:
        resolve_target(text, 2)
    assert re.search(says, str(error.value))
    assert capfd.readouterr().err == ""


def test_no_threads_is_refused():
    with pytest.raises(TargetError, match="threads"):
        resolve_target("native", 0)


def test_other_num_cores_than_threads_stays_and_warns():
    with pytest.warns(UserWarning, match="num-cores 4 but kernels run on 2"):
        target = resolve_target("llvm -num-cores=4", 2)
    assert threads_of(target) == 4


@pytest.mark.parametrize(
    ("text", "architecture"),
    [
        ("llvm -mtriple=x86_64-linux-gnu", "x86"),
        ("llvm -mtriple=aarch64-linux-gnu", "arm"),
        ("llvm -mtriple=riscv64-linux-gnu", "riscv"),
        ("nvidia/nvidia-a100", "cuda"),
    ],
)
def test_architecture_follows_from_triple_or_kind(text, architecture):
    assert architecture_of(resolve_target(text, 2)) == architecture
