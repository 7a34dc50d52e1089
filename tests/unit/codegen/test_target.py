import json

import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.codegen.emit.names import Names, safe


def test_a_target_by_name_or_as_itself():
    assert Target.of("c") == Target("c")
    assert Target.of(Target("c", num_cores=2)).num_cores == 2


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: Target("fortran"),
            "expected 'c', 'cuda', 'cuda-emulator', 'accelerator' or 'interpreter'",
        ),
        (lambda: Target.of(3), "expected a target's name or an mt.Target, but got target=3"),
        (lambda: Target("c", num_cores=0), "from 1 to 4096, but got num_cores=0"),
        (lambda: Target("c", num_cores=True), "num_cores=True"),
        (lambda: Target("c", num_cores=1.5), "num_cores=1.5"),
        (lambda: Target("c", vector_bits=100), "vector_bits=100"),
        (
            lambda: Target("c", device="a100"),
            "expected no GPU for target 'c', but got device='a100'",
        ),
        (lambda: Target("cuda", device="gtx"), "'h100', 'h200', but got device='gtx'"),
        (lambda: Target("cuda", device=3), "but got device=3"),
        (lambda: Target("c", features=["vnni"]), "expected some of amx_bf16, .*features='vnni'"),
        (lambda: Target("c", features="avx_vnni"), "expected a list of names, such as"),
        (lambda: Target("cuda", features=[]), "expected no features for target 'cuda'"),
    ],
)
def test_bad_targets(make, match):
    with pytest.raises(mt.ArgumentError, match=match):
        make()


def test_features_are_kept_in_order_and_only_where_they_are_named():
    one = Target("c", 2, 512, features=["avx_vnni", "amx_int8", "avx_vnni"])
    assert one.features == ("amx_int8", "avx_vnni")
    assert one == Target("c", 2, 512, features=("amx_int8", "avx_vnni"))
    assert Target(**json.loads(json.dumps(one.as_dict()))) == one
    assert "features" not in Target("c", 2, 512).as_dict()
    assert Target("c", 2, 512, features=()).as_dict()["features"] == ()


@pytest.mark.parametrize("what", [None, "C", 3, [1]])
def test_building_what_is_no_program(what):
    expected = r"expected a schedule or a program \(see mt\.lower\), but got what="
    with pytest.raises(mt.ArgumentError, match=expected):
        mt.build(what)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("A", "A"),
        ("i_0", "i_0"),
        ("ax0", "ax0"),
        ("int", "int_"),
        ("main", "main_"),
        ("sin", "sin_"),
        ("powf", "powf_"),
        ("size_t", "size_t_"),
        ("INT64_MAX", "INT64_MAX_"),
        ("M_PI", "M_PI_"),
        ("NAN", "NAN_"),
        ("max_float", "max_float_"),
        ("float32x16", "float32x16_"),
        ("1st", "v1st"),
        ("", "v_"),
        ("_x", "v_x"),
        ("a b", "a_b"),
        ('"; system("', "v___system__"),
        ("é", "v_"),
        ("*/", "v__"),
    ],
)
def test_safe_names(name, text):
    assert safe(name) == text


def test_long_names_are_cut():
    assert len(safe("a" * 5000)) <= 50


def test_names_in_scope_are_different():
    names = Names()
    assert names.push("i") == "i"
    assert names.push("i!") == "i_"
    assert names.push("i?") == "i_2"
    names.pop("i!")
    assert names.push("i,") == "i_"
    assert names.buffer("i") == "i_3" or names.buffer("i") not in ("i", "i_", "i_2")


def test_a_name_hidden_by_an_inner_one_comes_back():
    names = Names()
    outer = names.push("x")
    inner = names.push("x")
    assert outer != inner
    assert names.variable("x") == inner
    names.pop("x")
    assert names.variable("x") == outer
