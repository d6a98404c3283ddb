"""Kernels are compiled once: in memory, and on disk for the next process."""

import errno
import io
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import whit
from whit import Tensor
from whit.config import Context
from whit.dtype import dtypes
from whit.engine.compile import compile as compile_module
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import get_kernel, get_kernels
from whit.errors import BackendError
from whit.ir.uop import UOp
from whit.target import parse_target


def kernel_function(offset: float, name: str = "f") -> UOp:
    """p0[i] = p1[i] + offset"""
    i = UOp.range(100, 0)
    out, source = UOp.param(0, dtypes.float32, (100,)), UOp.param(1, dtypes.float32, (100,))
    return UOp.group(out.store(source.index(i) + offset, i)).function(name)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[UOp]:
    """The functions that were really compiled, from an empty memory cache."""
    compile_module._kernels.clear()
    found: list[UOp] = []
    original = compile_module.compile_kernel

    def counting(function: UOp, target: Any) -> Any:
        found.append(function)
        return original(function, target)

    monkeypatch.setattr(compile_module, "compile_kernel", counting)
    return found


def test_the_same_body_is_compiled_once_whatever_its_name(compiled: list[UOp], tmp_path: Path) -> None:
    target = parse_target("CPU")
    with Context(CACHE_DIR=str(tmp_path)):
        first = get_kernel(kernel_function(3.25), target)
        assert get_kernel(kernel_function(3.25, "other"), target) is first
        assert get_kernel(kernel_function(4.25), target) is not first
    assert len(compiled) == 2


def test_the_next_process_finds_it_on_disk(compiled: list[UOp], tmp_path: Path) -> None:
    target = parse_target("CPU")
    with Context(CACHE_DIR=str(tmp_path / "new" / "folder")):
        first = get_kernel(kernel_function(5.25), target)
        compile_module._kernels.clear()
        second = get_kernel(kernel_function(5.25), target)
    assert len(compiled) == 1
    assert (second.name, second.total, second.ops) == (first.name, first.total, first.ops)
    assert second.address


def test_kernels_that_are_compiled_together_are_those_compiled_alone(tmp_path: Path) -> None:
    target, functions = parse_target("CPU"), [kernel_function(offset) for offset in (1.75, 2.75, 1.75)]
    compile_module._kernels.clear()
    with Context(CACHE_DIR=str(tmp_path), THREADS=2):
        first, second, again = get_kernels(functions, target)
        codes = {path.name: path.read_bytes() for path in tmp_path.glob("*.kernel")}
        assert first is again and first is not second and first.address and second.address
        for path in tmp_path.iterdir():
            path.unlink()
        compile_module._kernels.clear()
        for function in functions:
            get_kernel(function, target)
        assert {path.name: path.read_bytes() for path in tmp_path.glob("*.kernel")} == codes and len(codes) == 2


def test_an_error_of_a_kernel_that_is_compiled_beside_others_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: Any) -> bytes:
        raise BackendError("LLVM: no")

    compile_module._kernels.clear()
    functions = [kernel_function(3.75), kernel_function(4.75)]
    with Context(CACHE=0, THREADS=2):
        with monkeypatch.context() as patch:
            patch.setattr(compile_module, "_compiled", fail)
            with pytest.raises(BackendError, match="LLVM: no"):
                get_kernels(functions, parse_target("CPU"))
        assert all(kernel.address for kernel in get_kernels(functions, parse_target("CPU")))


def test_settings_that_change_code_are_part_of_the_key() -> None:
    target = parse_target("CPU")
    function = kernel_function(1.0)
    keys = set()
    for settings in ({"NOOPT": 0}, {"NOOPT": 1}, {"THREADS": 1}):
        with Context(**{"NOOPT": 0, **settings}):
            keys.add(compile_module.kernel_key(function, target))
    with Context(NOOPT=0):
        keys.add(compile_module.kernel_key(function, parse_target("CPU:LLVM:x86-64")))
    assert len(keys) == 4


def test_a_damaged_entry_is_discarded_and_compiled_again(compiled: list[UOp], tmp_path: Path) -> None:
    target = parse_target("CPU")
    with Context(CACHE_DIR=str(tmp_path)):
        get_kernel(kernel_function(6.25), target)
        (path,) = tmp_path.glob("*.kernel")
        for damage in (b"", b"nonsense", path.read_bytes()[:-1], path.read_bytes()[:-1] + b"?"):
            path.write_bytes(damage)
            compile_module._kernels.clear()
            get_kernel(kernel_function(6.25), target)
            compile_module._kernels.clear()
            get_kernel(kernel_function(6.25), target)
    assert len(compiled) == 5


def test_cache_off_keeps_nothing(compiled: list[UOp], tmp_path: Path) -> None:
    with Context(CACHE=0, CACHE_DIR=str(tmp_path)):
        get_kernel(kernel_function(7.25), parse_target("CPU"))
    assert list(tmp_path.iterdir()) == []


def _a_file_in_its_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("")


def _read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()

    def refuse(path: str, *arguments: Any, **options: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(disk_cache, "open", refuse, raising=False)  # permissions do not stop an administrator


def _full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    def open_full(path: str, mode: str, opener: Any) -> Any:
        if mode == "rb":
            raise FileNotFoundError(path)
        Path(path).touch()
        return Full()

    monkeypatch.setattr(disk_cache, "open", open_full, raising=False)


def _cannot_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, **options: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(os, "makedirs", refuse)


@pytest.mark.parametrize("make_bad", [_a_file_in_its_place, _read_only, _full_disk, _cannot_be_made])
def test_a_folder_that_cannot_be_used_is_only_a_warning_and_only_once(
    make_bad: Any, compiled: list[UOp], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(disk_cache._state, "warned", 0)
    folder = tmp_path / "kernels"
    make_bad(folder, monkeypatch)
    with Context(CACHE_DIR=str(folder)):
        with pytest.warns(RuntimeWarning, match=f"whit cannot keep compiled kernels in {re.escape(str(folder))}"):
            first = get_kernel(kernel_function(8.25), parse_target("CPU"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            second = get_kernel(kernel_function(9.25), parse_target("CPU"))
    assert first.address and second.address
    assert len(compiled) == 2
    assert not folder.is_dir() or list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_program_runs_and_warns_once_where_the_folder_cannot_be_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    program = "from whit import Tensor\nx = Tensor([1.0])\nprint((x * 2.5).item(), (x + 2.5).exp2().item())"
    environment = {**os.environ, "CACHE_DIR": str(blocked)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("2.5 11.31")
    assert done.stderr.count("RuntimeWarning: whit cannot keep compiled kernels in") == 1
    assert "Set CACHE_DIR to a folder that can be written, or CACHE=0." in done.stderr


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(disk_cache._state, "warned", 0)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    with Context(CACHE_DIR=""):
        assert disk_cache.find("a" * 64) is None
        with pytest.warns(RuntimeWarning, match=r"in its cache folder \(this user has no home folder\)"):
            disk_cache.keep("a" * 64, {}, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_folder_is_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with Context(CACHE_DIR=""):
        assert disk_cache.folder() == "/home/ada/.cache/whit/kernels"
        monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
        assert disk_cache.folder() == "/fast/whit/kernels"
    with Context(CACHE_DIR="/here"):
        assert disk_cache.folder() == "/here"


def test_an_entry_that_cannot_be_read_is_written_again(compiled: list[UOp], tmp_path: Path) -> None:
    target = parse_target("CPU")
    with Context(CACHE_DIR=str(tmp_path)):
        get_kernel(kernel_function(10.25), target)
        (path,) = tmp_path.glob("*.kernel")
        path.unlink()
        path.symlink_to(tmp_path / "nowhere" / "at all")
        compile_module._kernels.clear()
        get_kernel(kernel_function(10.25), target)
        assert not path.is_symlink()
        compile_module._kernels.clear()
        get_kernel(kernel_function(10.25), target)
    assert len(compiled) == 2


def test_entries_belong_to_their_key(compiled: list[UOp], tmp_path: Path) -> None:
    """Two files with each other's names: each is compiled again, and neither computes what the other does."""

    def results() -> list[float]:
        whit.clear_caches()
        x = Tensor([2.0, 3.0]).realize()
        return [*(x + 7).tolist(), *(x * 7).tolist()]

    with Context(CACHE_DIR=str(tmp_path), CACHE=1):
        assert results() == [9, 10, 14, 21]
        files = sorted(tmp_path.glob("*.kernel"))
        assert len(files) >= 4  # of each two a kernel and a schedule
        contents = [path.read_bytes() for path in files]
        for shift in range(1, len(files)):
            for path, content in zip(files, contents[shift:] + contents[:shift], strict=True):
                path.write_bytes(content)
            assert results() == [9, 10, 14, 21]
        assert [path.read_bytes() for path in files] == contents
        count = len(compiled)
        assert results() == [9, 10, 14, 21]
        assert len(compiled) == count


@pytest.mark.parametrize("ending", (".kernel", ".tuned"))
def test_an_entry_under_another_key_or_ending_is_removed(ending: str, tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        disk_cache.keep("a" * 64, {}, b"code")
        path = (tmp_path / f"{'a' * 64}.kernel").rename(tmp_path / f"{'b' * 64}{ending}")
        assert disk_cache.find("b" * 64, ending) is None
        assert not path.exists()


@pytest.mark.parametrize("length", (0, 1, 20, 60, -1))
def test_what_is_left_of_a_file_is_removed(length: int, tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        disk_cache.keep("a" * 64, {"name": "f"}, b"code")
        (path,) = tmp_path.iterdir()
        path.write_bytes(path.read_bytes()[:length])
        assert disk_cache.find("a" * 64) is None
        assert not path.exists()


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files of this system have no owners")


@posix
def test_the_folder_and_its_files_are_made_for_their_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Context(CACHE_DIR=str(tmp_path / "new" / "kernels")):
            disk_cache.keep("a" * 64, {}, b"code")
            assert disk_cache.find("a" * 64) is not None
    finally:
        os.umask(before)
    (path,) = (tmp_path / "new" / "kernels").iterdir()
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


def _everybody_may_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.chmod(0o777)
    return "everybody can write there"


def _of_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(disk_cache, "_is_ours", lambda user: False)
    return "it belongs to another user"


@posix
@pytest.mark.parametrize("make_bad", (_everybody_may_write, _of_another))
@pytest.mark.parametrize("first", ("find", "keep"))
def test_code_of_a_folder_that_others_write_is_not_run(
    make_bad: Any, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(disk_cache._state, "warned", 0)
    with Context(CACHE_DIR=str(tmp_path)):
        disk_cache.keep("a" * 64, {}, b"code")
        why = make_bad(tmp_path, monkeypatch)
        with pytest.warns(RuntimeWarning, match=f"{why}.*chmod 700.*CACHE_DIR.*CACHE=0"):
            disk_cache.find("a" * 64) if first == "find" else disk_cache.keep("b" * 64, {}, b"code")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            disk_cache.keep("b" * 64, {}, b"code")
            assert disk_cache.find("a" * 64) is None
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 64 + ".kernel"]


@posix
def test_files_that_others_write_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        for number, change in enumerate(("mode", "link", "pipe", "folder")):
            key = f"{number}" * 64
            disk_cache.keep(key, {}, b"code")
            path = tmp_path / f"{key}.kernel"
            assert disk_cache.find(key) is not None
            if change == "mode":
                path.chmod(0o620)
            else:
                path.rename(tmp_path / "elsewhere")
            if change == "link":
                path.symlink_to(tmp_path / "elsewhere")
            if change == "pipe":
                os.mkfifo(path)
            if change == "folder":
                path.mkdir()
            assert disk_cache.find(key) is None
            if change != "folder":
                disk_cache.keep(key, {}, b"code")
                assert disk_cache.find(key) is not None


def test_the_rest_of_a_crashed_process_is_written_over(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        name = f"{'a' * 64}.{os.getpid()}.{threading.get_ident()}.part"
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
        disk_cache.keep("a" * 64, {}, b"code")
        assert disk_cache.find("a" * 64) == ({}, b"code")
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 64 + ".kernel"]


@pytest.mark.slow
def test_a_program_runs_where_warnings_are_errors_and_the_folder_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = "from whit import Tensor\nprint((Tensor([1.0]) * 2.5).item())"
    environment = {**os.environ, "CACHE_DIR": str(tmp_path / "file")}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "2.5\n"), done.stderr
    assert done.stderr.startswith("RuntimeWarning: whit cannot keep compiled kernels in ")


def test_a_warning_that_is_an_error_is_no_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def warns(*arguments: Any) -> Any:
        raise RuntimeWarning("as an error")

    monkeypatch.setattr("whit.engine.plan.find_plan.make_plan", warns)
    with pytest.raises(RuntimeWarning, match="as an error"):
        (Tensor([1.0, 2.0]) * 123.25 - 7.5).realize()


def test_entries_come_back_as_they_were(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        assert disk_cache.find("a" * 64) is None
        disk_cache.keep("a" * 64, {"name": "f", "variables": ["n"]}, b"\0code")
        assert disk_cache.find("a" * 64) == ({"name": "f", "variables": ["n"]}, b"\0code")
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 64 + ".kernel"]


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        for i in range(6):
            disk_cache.keep(f"{i}", {}, bytes(1000))
            os.utime(tmp_path / f"{i}.kernel", (i, i))
        disk_cache.find("0")  # used now
        size = (tmp_path / "0.kernel").stat().st_size
        disk_cache.clean(str(tmp_path), 3 * size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.kernel", "4.kernel", "5.kernel"]


PROGRAM = """
import sys
from whit.dtype import dtypes
from whit.engine.realize.realize import realize
from whit.engine.memory.storage import from_bytes
from whit.engine.memory.values import to_list
a = from_bytes(bytes(400), dtypes.float32, (100,))
assert to_list(realize([a + 3.75])[0]) == [3.75] * 100
print(*[name for name in sys.modules if name.startswith(("llvmlite", "numpy", "whit.codegen", "whit.render"))])
"""


def run_program(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "CACHE_DIR": str(folder), "VERIFY": "0", "CHECK_PLAN": "0"}  # which load NumPy
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_processes_may_compile_the_same_at_once_and_later_ones_load_no_compiler(tmp_path: Path) -> None:
    for process in [run_program(tmp_path) for _ in range(3)]:
        process.communicate()
        assert process.returncode == 0
    warm = run_program(tmp_path)
    loaded, _ = warm.communicate()
    assert warm.returncode == 0
    assert loaded.split() == []
    assert list(tmp_path.glob("*.part")) == []
