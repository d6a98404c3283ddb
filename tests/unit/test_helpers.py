"""The helpers that programs use."""

import ctypes
from pathlib import Path

import pytest

from whit import helpers
from whit.errors import ArgumentError, BackendError, ShapeError


def test_every_public_name_is_there() -> None:
    text = (
        "getenv Context Timing Profiling fetch colored tqdm trange DEBUG GlobalCounters prod flatten dedup all_same "
        "round_up ceildiv partition ContextVar temp argfix fully_flatten get_shape get_child time_to_str to_mv from_mv "
        "mv_address OSX WIN CI BEAM DEV DEFAULT_FLOAT JIT NOOPT TRACK_MATCH_STATS TRAINING WINO diskcache "
        "profile_marker"
    )
    names = text.split()
    assert sorted(names) == sorted(helpers.__all__)
    assert all(hasattr(helpers, name) for name in names)


def test_numbers_and_lists() -> None:
    assert helpers.prod([]) == 1 and helpers.prod((2, 3, 4)) == 24
    assert [helpers.ceildiv(n, 4) for n in (0, 1, 4, 5, -1)] == [0, 1, 1, 2, 0]
    assert [helpers.round_up(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
    assert helpers.flatten([[1], [], [2, 3]]) == [1, 2, 3]
    assert helpers.fully_flatten([1, [2, (3, [4])]]) == [1, 2, 3, 4]
    assert helpers.dedup([3, 1, 3, 2, 1]) == [3, 1, 2]
    assert helpers.all_same([]) and helpers.all_same([1, 1]) and not helpers.all_same([1, 2])
    assert helpers.partition([1, 2, 3, 4], lambda n: n % 2) == ([1, 3], [2, 4])


def test_argfix_takes_a_list_or_numbers() -> None:
    assert helpers.argfix() == ()
    assert helpers.argfix(1, 2) == helpers.argfix((1, 2)) == helpers.argfix([1, 2]) == (1, 2)
    with pytest.raises(ArgumentError, match="a list and more arguments"):
        helpers.argfix((1,), 2)


def test_get_shape_wants_regular_lists() -> None:
    assert helpers.get_shape(3) == ()
    assert helpers.get_shape([[1, 2, 3], [4, 5, 6]]) == (2, 3)
    assert helpers.get_shape([]) == (0,)
    with pytest.raises(ShapeError, match="the lists differ in shape"):
        helpers.get_shape([[1], [2, 3]])


def test_get_child_follows_a_path() -> None:
    class Layer:
        weights = ({"w": 5},)

    assert helpers.get_child(Layer(), "weights.0.w") == 5


def test_timing_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with helpers.Timing("step: ", on_exit=lambda ns: f" ({ns > 0})"):
        pass
    out = capsys.readouterr().out
    assert out.startswith("step: ") and out.endswith(" ms (True)\n")
    with helpers.Timing(enabled=False) as timing:
        pass
    assert capsys.readouterr().out == "" and timing.et >= 0


def test_profiling_prints_functions(capsys: pytest.CaptureFixture[str]) -> None:
    with helpers.Profiling(sort="time"):
        sorted(range(10))
    assert "function calls" in capsys.readouterr().out


def test_progress_bars_iterate(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(helpers.tqdm([1, 2, 3], desc="work")) == [1, 2, 3]
    assert list(helpers.trange(4, disable=True)) == [0, 1, 2, 3]
    error = capsys.readouterr().err
    assert "work: 100%|" in error and "3/3" in error
    with helpers.tqdm(total=10) as bar:
        bar.set_description("x")
        bar.update(4)
        bar.update(6)
    assert bar.n == 10


def test_colours_and_times() -> None:
    assert helpers.colored("x", "red") == "\033[31mx\033[0m"
    assert helpers.colored("x", "RED") == "\033[91mx\033[0m"
    assert helpers.colored("x", None) == "x"
    assert [helpers.time_to_str(t).strip() for t in (12.5, 0.0125, 12.5e-6)] == ["12.50s", "12.50ms", "12.50us"]


def test_fetch_downloads_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"data")
    assert helpers.fetch(str(source)) == source
    calls: list[str] = []

    def download(url: str, place: Path, gunzip: bool, headers: dict[str, str], sha256: str | None) -> None:
        calls.append(url)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")

    monkeypatch.setattr(helpers, "_download", download)
    with helpers.Context(CACHE_DIR=str(tmp_path)):
        first = helpers.fetch("https://example.invalid/a", name="a.bin", subdir="sub")
        assert first == helpers.fetch("https://example.invalid/a", name="a.bin", subdir="sub")
        assert first == tmp_path / "downloads" / "sub" / "a.bin"
        helpers.fetch("https://example.invalid/b")
    assert calls == ["https://example.invalid/a", "https://example.invalid/b"]


def test_fetch_says_what_cannot_be_downloaded(tmp_path: Path) -> None:
    with (
        helpers.Context(CACHE_DIR=str(tmp_path)),
        pytest.raises(BackendError, match=r"fetch: http://127\.0\.0\.1:9/x cannot be downloaded"),
    ):
        helpers.fetch("http://127.0.0.1:9/x")
    assert list((tmp_path / "downloads").iterdir()) == []


def test_raw_memory() -> None:
    data = bytearray(b"abcdef")
    view = memoryview(data)
    address = helpers.mv_address(view)
    assert bytes(helpers.to_mv(address, 3)) == b"abc"
    helpers.to_mv(address + 1, 1)[0] = ord("X")
    assert data == b"aXcdef"
    pointer = helpers.from_mv(view)
    assert ctypes.addressof(pointer) == address
    frozen = b"abc"
    assert bytes(helpers.to_mv(helpers.mv_address(memoryview(frozen)), 3)) == b"abc"
    assert helpers.temp("x").endswith("x")


def test_names_of_the_package() -> None:
    import whit

    for name in ("Tensor", "Device", "dtypes", "Variable", "Context", "GlobalCounters", "UOp", "getenv", "fetch"):
        assert name in whit.__all__ and hasattr(whit, name)
    assert whit.GlobalCounters is helpers.GlobalCounters and whit.fetch is helpers.fetch
    n = whit.Variable("n", 1, 10)
    assert n.bind(3).src[1].arg == 3
    assert (n + 1).op.name == "add" and (n < 4).dtype is whit.dtypes.bool


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(helpers.trange(3, desc="work")) == [0, 1, 2]
    assert "work: 100%|" in capsys.readouterr().err
    with helpers.Profiling(frac=0.1):
        sum(range(10))
    assert "function calls" in capsys.readouterr().out
    with helpers.Profiling(enabled=False):
        pass
    assert capsys.readouterr().out == ""
