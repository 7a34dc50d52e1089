"""Finding nvcc, and what is said where there is none that will do: programs that only print."""

import importlib.util
from types import SimpleNamespace

import pytest

from minitensor.errors import CompileError
from minitensor.runtime.cuda import nvcc

SAYS = """case "$1" in
--version) echo "Cuda compilation tools, release {release}, V{release}.1" ;;
--list-gpu-code) echo sm_80; echo sm_90; echo sm_90a ;;
--dryrun) echo '#$ TOP={top}' >&2; echo '#$ LIBRARIES=  "-L{top}/stubs" "-L{top}/lib"' >&2 ;;
esac"""


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """A machine without programs and without packages."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(nvcc, "_known", {})


def install(top, release="13.0", library="libcudart.so.13"):
    """A folder of CUDA whose nvcc only prints; returns its path."""
    (top / "bin").mkdir(parents=True, exist_ok=True)
    (top / "lib").mkdir()
    if library:
        (top / "lib" / library).touch()
    path = top / "bin" / "nvcc"
    path.write_text("#!/bin/sh\n" + SAYS.format(release=release, top=top) + "\n")
    path.chmod(0o755)
    return path


def message():
    with pytest.raises(CompileError) as caught:
        nvcc.find_nvcc()
    assert "\n" not in caught.value.message
    return caught.value.message


def test_no_nvcc_says_how_to_get_one_and_what_works_without():
    assert message() == (
        "no nvcc is found (looked for in NVCC, CUDA_HOME, PATH and the packages of Python); "
        'install one (python -m pip install "minitensor[cuda]", or NVIDIA\'s CUDA toolkit), or '
        'name one in NVCC; target="cuda-emulator" needs neither nvcc nor a GPU'
    )


def test_what_it_says_of_itself_is_read(tmp_path):
    path = install(tmp_path)
    found = nvcc.find_nvcc()
    assert found.path == str(path) and found.release == (13, 0)
    assert found.version == f"nvcc 13.0 ({path})" and found.architectures == (80, 90)
    assert found.library == str(tmp_path / "lib" / "libcudart.so.13")


def test_places_in_order(tmp_path, monkeypatch):
    site = tmp_path / "site" / "nvidia"
    spec = SimpleNamespace(submodule_search_locations=[str(site)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    package = install(site / "cu13")
    assert nvcc.find_nvcc().path == str(package)
    on_path = install(tmp_path)
    assert nvcc.find_nvcc().path == str(on_path)
    home = install(tmp_path / "home")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert nvcc.find_nvcc().path == str(home)
    named = install(tmp_path / "named")
    monkeypatch.setenv("NVCC", str(named))
    assert nvcc.find_nvcc().path == str(named)


def test_a_name_that_is_wrong_is_not_replaced_by_another(tmp_path, monkeypatch):
    install(tmp_path)
    monkeypatch.setenv("NVCC", "nvcc; rm -rf x")
    assert message().startswith("NVCC='nvcc; rm -rf x': no such program is found; install one (")


def test_a_folder_without_nvcc_is_passed_over(tmp_path, monkeypatch):
    path = install(tmp_path)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nothing"))
    assert nvcc.find_nvcc().path == str(path)


def test_answers_are_remembered(tmp_path, monkeypatch):
    path = install(tmp_path)
    first = nvcc.find_nvcc()
    text = path.read_text()
    path.write_text(text.replace("echo sm_90;", "echo sm_91;"))
    assert nvcc.find_nvcc().architectures == (80, 91)  # another file
    path.write_text(text)
    monkeypatch.setattr(nvcc, "_known", {})
    assert nvcc.find_nvcc().architectures == first.architectures
    (tmp_path / "lib" / "libcudart.so.13").rename(tmp_path / "lib" / "libcudart.so.14")
    monkeypatch.setattr(nvcc, "_known", {})
    assert nvcc.find_nvcc().library.endswith(".14")


@pytest.mark.parametrize("release", ["11.7", "9.2", "10.10"])
def test_an_old_nvcc(tmp_path, release):
    path = install(tmp_path, release)
    assert f"nvcc {release} ({path}) is too old: 11.8 or newer is needed; install" in message()


def test_a_program_that_is_no_nvcc(tmp_path):
    install(tmp_path).write_text("#!/bin/sh\necho hello\n")
    assert "nvcc is no nvcc (it printed: hello); install one" in message()


def test_an_nvcc_that_knows_no_gpu(tmp_path):
    path = install(tmp_path)
    path.write_text(path.read_text().replace("echo sm_80", "exit 1"))
    assert "does not say which GPUs it knows: no message" in message()


def test_an_nvcc_without_its_runtime(tmp_path):
    install(tmp_path, library=None)
    found = message()
    assert "has no CUDA runtime (libcudart.so) in " in found and f"{tmp_path}/lib" in found
    assert 'install it (python -m pip install "minitensor[cuda]"' in found


def test_a_gpu_that_it_makes_no_code_for(tmp_path):
    path = install(tmp_path)
    found = nvcc.find_nvcc()
    assert found.making(90).capability == 90
    with pytest.raises(CompileError) as caught:
        found.making(120)
    assert caught.value.message == (
        f"nvcc 13.0 ({path}) makes no code for sm_120 (it does for sm_80, sm_90); name another "
        'GPU, as in mt.Target("cuda", device="h100"), or another nvcc in NVCC'
    )


def test_advice_fits_what_was_printed(tmp_path):
    install(tmp_path)
    found = nvcc.find_nvcc()
    for printed in (
        "host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 15",
        "nvcc fatal   : Host compiler targets unsupported OS.",
        "nvcc fatal   : Failed to preprocess host compiler properties.",
    ):
        assert found.advice(printed) == nvcc.HOST_ADVICE
    assert found.advice("error: x is undefined").startswith("check NVCC")


def test_a_small_kernel_that_does_not_compile(tmp_path):
    path = install(tmp_path)
    path.write_text(path.read_text().replace("esac", "*) echo error: no >&2; exit 2 ;; esac"))
    with pytest.raises(CompileError, match="cannot compile a small kernel: error: no; check NVCC"):
        nvcc.probe_nvcc()
