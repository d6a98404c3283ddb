"""Dtypes: identity, names, defaults, promotion, and exact conversion checked against numpy and ml_dtypes."""

import bisect
import copy
import itertools
import math
import os
import pickle
import random
import re
import struct
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whit.config import Context
from whit.dtype import (
    DTYPES_DICT,
    DType,
    can_lossless_cast,
    convert,
    decode,
    dtypes,
    encode,
    float_to_bf16,
    float_to_fp8,
    float_to_fp16,
    fp8_to_float,
    least_upper_dtype,
    least_upper_float,
    resolve_weak,
    round_float,
    to_dtype,
    truncate,
    weak_dtype,
    wrap,
)
from whit.errors import DTypeError

ROOT = Path(__file__).parents[2]
WEAK = (dtypes.weakint, dtypes.weakfloat, dtypes.weakcomplex)
WITH_VALUES = (*dtypes.all, *WEAK)
EVERY = (dtypes.void, *WITH_VALUES)

REFERENCE = {
    dtypes.fp8e4m3: ml_dtypes.float8_e4m3fn,
    dtypes.fp8e5m2: ml_dtypes.float8_e5m2,
    dtypes.fp8e4m3fnuz: ml_dtypes.float8_e4m3fnuz,
    dtypes.fp8e5m2fnuz: ml_dtypes.float8_e5m2fnuz,
    dtypes.float16: np.float16,
    dtypes.bfloat16: ml_dtypes.bfloat16,
    dtypes.float32: np.float32,
    dtypes.float64: np.float64,
}
UINT_OF_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SMALL_FLOATS = tuple(dtype for dtype in dtypes.floats if dtype.itemsize <= 2)


def same(left: float, right: float) -> bool:
    """Equal, telling -0.0 from 0.0 and taking NaN for equal to NaN."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right and math.copysign(1.0, left) == math.copysign(1.0, right)


def values_of(dtype: DType) -> list[float]:
    """Every number a small dtype can hold, without NaN."""
    decoded = [decode(dtype, bits) for bits in range(1 << dtype.bitsize)]
    return [value for value in decoded if not math.isnan(value)]


def nearest_in(dtype: DType, finite: list[float], value: float) -> float:
    """An obvious rounding: the closest of sorted values, and of two equally close the one with an even code."""
    above = bisect.bisect_left(finite, value)
    neighbours = finite[max(above - 1, 0) : above + 1]
    return min(neighbours, key=lambda near: (abs(Fraction(near) - Fraction(value)), encode(dtype, near) & 1))


# ---- Objects and names ----


@pytest.mark.parametrize("dtype", EVERY, ids=repr)
def test_a_dtype_survives_pickle_and_copy_as_the_same_object(dtype):
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy({"nested": [dtype]})["nested"][0] is dtype
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype


def test_names_of_other_libraries_are_equal_to_dtypes_and_accepted_as_them():
    import ml_dtypes
    import numpy as np

    assert dtypes.float32 == "float32" == dtypes.float32
    assert dtypes.float32 == np.float32 and dtypes.float32 == np.dtype("float32")
    assert (
        dtypes.float32 != "float64" and dtypes.float32 != "cat" and dtypes.float32 != 3 and dtypes.float32 is not None
    )
    assert dtypes.float32 != dtypes.float64
    assert dtypes.bool == np.bool_
    for dtype in (np.int8, np.uint64, np.float16, ml_dtypes.bfloat16):
        assert to_dtype(dtype) is to_dtype(np.dtype(dtype)) is to_dtype(dtype.__name__)  # type: ignore[arg-type]
    assert to_dtype(ml_dtypes.float8_e4m3fn) is dtypes.fp8e4m3


def test_python_types_are_the_defaults():
    assert to_dtype(float) is dtypes.float32 and to_dtype(int) is dtypes.int32 and to_dtype(bool) is dtypes.bool
    with dtypes.defaults(float="float64", int="int64"):
        assert to_dtype(float) is dtypes.float64 and to_dtype(int) is dtypes.int64
    with pytest.raises(DTypeError, match=r"expected a dtype or its name\n  got <class 'list'>"):
        to_dtype(list)


def test_dtypes_of_pytorch_are_accepted():
    torch = pytest.importorskip("torch")
    for name in ("float32", "float16", "bfloat16", "int64", "uint8", "bool"):
        assert to_dtype(getattr(torch, name)) is to_dtype(name)
        assert to_dtype(name) == getattr(torch, name)
    assert to_dtype(torch.float8_e5m2) is dtypes.fp8e5m2


def test_dtypes_hash_by_identity_and_cannot_be_changed():
    assert DType.__hash__ is object.__hash__
    with pytest.raises(AttributeError):
        dtypes.float32.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        dtypes.float32 = dtypes.float64  # type: ignore[misc]
    with pytest.raises(AttributeError):
        dtypes.defualt_float = dtypes.float64  # type: ignore[attr-defined]


def test_repr_is_the_expression_that_gives_the_dtype():
    for dtype in EVERY:
        assert eval(repr(dtype)) is dtype


def test_aliases_are_the_dtypes_they_stand_for():
    pairs = "half float16 float float32 double float64 char int8 uchar uint8 short int16 ushort uint16 int int32 "
    pairs += "uint uint32 long int64 ulong uint64 index weakint bool_ bool"
    names = pairs.split()
    for alias, name in zip(names[::2], names[1::2], strict=True):
        assert getattr(dtypes, alias) is getattr(dtypes, name)
        assert to_dtype(alias) is to_dtype(name)


def test_to_dtype_takes_dtypes_and_names_in_any_case():
    for dtype in EVERY:
        assert to_dtype(dtype) is dtype
        assert to_dtype(dtype.name.upper()) is dtype


def test_dtypes_dict_has_names_and_aliases_of_what_can_be_stored():
    assert set(DTYPES_DICT.values()) == set(dtypes.all)
    assert all(DTYPES_DICT[dtype.name] is dtype for dtype in dtypes.all)
    assert DTYPES_DICT["half"] is dtypes.float16


def test_a_misspelt_name_is_answered_with_the_nearest_one():
    with pytest.raises(DTypeError) as caught:
        to_dtype("flaot32")
    what, details, fix = str(caught.value).splitlines()
    assert what == "dtype: there is no dtype named 'flaot32'"
    assert details.startswith("  known: void, weakint")
    assert fix == '  Did you mean "float32"?'
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)


def test_a_value_that_is_no_name_is_refused():
    with pytest.raises(DTypeError, match=r"expected a dtype or its name\n  got 3, a int\n  Pass"):
        to_dtype(3)  # type: ignore[arg-type]


def test_sizes_kinds_and_predicates_agree():
    assert (dtypes.bool.bitsize, dtypes.bool.itemsize) == (1, 1)
    assert [dtype.itemsize for dtype in (dtypes.void, *WEAK)] == [0, 0, 0, 0]
    assert all(dtype.itemsize * 8 == dtype.bitsize for dtype in (*dtypes.ints, *dtypes.floats))
    assert all(struct.calcsize("<" + dtype.fmt) == dtype.itemsize for dtype in dtypes.all if dtype.fmt)
    assert [dtype for dtype in EVERY if dtype.is_float] == [*dtypes.floats, dtypes.weakfloat]
    assert {dtype for dtype in EVERY if dtype.is_int} == {*dtypes.ints, dtypes.weakint}
    assert {dtype for dtype in EVERY if dtype.is_unsigned} == set(dtypes.uints)
    assert [dtype for dtype in EVERY if dtype.is_bool] == [dtypes.bool]
    for dtype in EVERY:
        asked = (dtypes.is_float, dtypes.is_int, dtypes.is_unsigned, dtypes.is_bool)
        assert [ask(dtype) for ask in asked] == [dtype.is_float, dtype.is_int, dtype.is_unsigned, dtype.is_bool]


def test_ranges_are_numpys():
    for dtype in dtypes.ints:
        info = np.iinfo(dtype.name)
        assert (dtypes.min(dtype), dtypes.max(dtype)) == (info.min, info.max)
    for dtype, reference in REFERENCE.items():
        kind = ml_dtypes.finfo(reference)
        assert dtype.largest == float(kind.max)
        assert dtypes.finfo(dtype) == (kind.iexp if dtype is dtypes.float64 else kind.bits - 1 - kind.nmant, kind.nmant)
        assert (dtype.min, dtype.max) == (-math.inf, math.inf)
    assert (dtypes.bool.min, dtypes.bool.max) == (False, True)
    assert dtypes.weakint.min is None and dtypes.weakint.max is None


def test_finfo_of_an_integer_is_refused():
    with pytest.raises(DTypeError, match=r"finfo: expected a float dtype\n  got dtypes.int8\n  Ask"):
        dtypes.finfo(dtypes.int8)


# ---- Defaults ----


def test_defaults_are_scoped_to_a_with_block():
    with dtypes.defaults(float=dtypes.bfloat16, int="int64"):
        assert (dtypes.default_float, dtypes.default_int) == (dtypes.bfloat16, dtypes.int64)
        with dtypes.defaults(float=dtypes.half):
            assert (dtypes.default_float, dtypes.default_int) == (dtypes.float16, dtypes.int64)
        dtypes.default_float = dtypes.float64
        assert dtypes.default_float is dtypes.float64
    assert (dtypes.default_float, dtypes.default_int) == (dtypes.float32, dtypes.int32)


def test_the_settings_are_the_defaults():
    with Context(DEFAULT_FLOAT="half", DEFAULT_INT="int64"):
        assert (dtypes.default_float, dtypes.default_int) == (dtypes.float16, dtypes.int64)
    with Context(DEFAULT_FLOAT="int8"), pytest.raises(DTypeError, match="default_float: expected a float dtype"):
        _ = dtypes.default_float


def test_an_assigned_default_is_seen_by_other_threads():
    seen = []
    dtypes.default_float = dtypes.float16
    try:
        thread = threading.Thread(target=lambda: seen.append(dtypes.default_float))
        thread.start()
        thread.join()
    finally:
        dtypes.default_float = dtypes.float32
    assert seen == [dtypes.float16]


def test_a_default_of_the_wrong_kind_is_refused():
    with pytest.raises(DTypeError, match=r"default_float: expected a float dtype\n  got dtypes.int32\n  Try"):
        dtypes.default_float = dtypes.int32
    with pytest.raises(DTypeError, match=r"default_int: expected an integer dtype\n  got dtypes.weakint\n  Try"):
        dtypes.default_int = dtypes.weakint
    with pytest.raises(DTypeError, match="no dtype named 'flot16'"), dtypes.defaults(float="flot16"):
        pass


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({"DEFAULT_FLOAT": "HALF", "DEFAULT_INT": "int64"}, "dtypes.float16 dtypes.int64"),
        ({"DEFAULT_FLOAT": "", "DEFAULT_INT": ""}, "dtypes.float32 dtypes.int32"),
        ({"DEFAULT_FLOAT": "int8"}, "default_float: expected a float dtype"),
        ({"DEFAULT_INT": "imt8"}, "there is no dtype named 'imt8'"),
    ],
)
def test_the_environment_sets_the_defaults_or_says_what_is_wrong(environment, expected):
    program = "from whit.dtype import dtypes; print(dtypes.default_float, dtypes.default_int)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    assert expected in done.stdout + done.stderr


def test_importing_dtype_does_not_import_numpy():
    program = "import sys, whit.dtype; assert not {'numpy', 'ml_dtypes'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def test_from_py_resolves_to_the_defaults():
    assert dtypes.from_py(True) is dtypes.bool
    assert dtypes.from_py(3) is dtypes.default_int
    assert dtypes.from_py(3.0) is dtypes.default_float
    assert dtypes.from_py([[True, False], [True, 2]]) is dtypes.default_int
    assert dtypes.from_py([1, (2.0, 3)]) is dtypes.default_float
    assert dtypes.from_py([]) is dtypes.default_float
    with dtypes.defaults(float=dtypes.float16):
        assert dtypes.from_py(1.0) is dtypes.float16
    found = [weak_dtype(value) for value in (True, 1, 1.0, 1j)]
    assert found == [dtypes.bool, dtypes.weakint, dtypes.weakfloat, dtypes.weakcomplex]


def test_from_py_of_something_else_is_refused():
    with pytest.raises(DTypeError, match=r"cannot tell the dtype of a Python value\n  got 'x', a str\n  Pass"):
        dtypes.from_py(["x"])


# ---- Promotion ----


def promotion_table() -> list[tuple[str, str, str]]:
    text = (ROOT / "docs" / "dtypes.md").read_text()
    table = text.split("| left | right | result | why |\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return [(left, right, result) for left, right, result, _ in rows]


@pytest.mark.parametrize("left, right, result", promotion_table())
def test_the_promotion_table_in_the_docs_is_true(left, right, result):
    assert least_upper_dtype(to_dtype(left), to_dtype(right)) is to_dtype(result)
    assert least_upper_dtype(to_dtype(right), to_dtype(left)) is to_dtype(result)


def test_the_table_in_the_docs_was_found():
    assert len(promotion_table()) > 20


def test_the_dtype_table_in_the_docs_names_every_dtype_and_alias():
    table = (ROOT / "docs" / "dtypes.md").read_text().split("## Defaults")[0]
    every = {*DTYPES_DICT, *(dtype.name for dtype in (dtypes.void, *WEAK))}
    assert {name for name in re.findall(r"`(\w+)`", table) if name in every} == every


def test_promotion_is_idempotent_commutative_and_associative():
    for dtype in EVERY:
        assert least_upper_dtype(dtype) is least_upper_dtype(dtype, dtype) is dtype
    for left, right in itertools.combinations(WITH_VALUES, 2):
        assert least_upper_dtype(left, right) is least_upper_dtype(right, left)
    for one, two, three in itertools.product(WITH_VALUES, repeat=3):
        joined = least_upper_dtype(one, two, three)
        assert least_upper_dtype(one, least_upper_dtype(two, three)) is joined


def test_promotion_never_goes_down_in_priority():
    for left, right in itertools.product(WITH_VALUES, repeat=2):
        assert least_upper_dtype(left, right).priority >= max(left.priority, right.priority)
    assert len({dtype.priority for dtype in EVERY}) == len(EVERY)


def test_joins_of_sized_integers_and_of_floats_lose_nothing():
    for left, right in itertools.combinations_with_replacement((dtypes.bool, *dtypes.ints), 2):
        joined = least_upper_dtype(left, right)
        if joined.is_float:
            assert dtypes.uint64 in (left, right)
        else:
            assert can_lossless_cast(left, joined) and can_lossless_cast(right, joined)
    for left, right in itertools.combinations_with_replacement(dtypes.floats, 2):
        joined = least_upper_dtype(left, right)
        assert can_lossless_cast(left, joined) and can_lossless_cast(right, joined)


def test_products_of_two_fp8_numbers_are_exact_in_bfloat16():
    for left, right in itertools.combinations_with_replacement(dtypes.fp8s, 2):
        finite_left = [value for value in values_of(left) if 0 < value < math.inf]
        finite_right = [value for value in values_of(right) if 0 < value < math.inf]
        for one, two in itertools.product(finite_left, finite_right):
            assert one * two == float_to_bf16(one * two)


def test_void_promotes_with_nothing_else_and_nothing_has_no_promotion():
    with pytest.raises(DTypeError, match=r"promotion: dtypes.void and dtypes.int32 have no common dtype"):
        least_upper_dtype(dtypes.void, dtypes.int32)
    with pytest.raises(DTypeError, match="needs at least one dtype"):
        least_upper_dtype()


def test_weak_dtypes_resolve_to_the_defaults_and_others_stay():
    with dtypes.defaults(float=dtypes.bfloat16, int=dtypes.uint8):
        assert resolve_weak(dtypes.weakint) is dtypes.uint8
        assert resolve_weak(dtypes.weakfloat) is dtypes.bfloat16
    assert all(resolve_weak(dtype) is dtype for dtype in dtypes.all)


def test_least_upper_float_keeps_floats_and_turns_the_rest_into_the_default():
    with dtypes.defaults(float=dtypes.float16):
        assert all(least_upper_float(dtype) is dtype for dtype in (*dtypes.floats, dtypes.weakfloat))
        assert all(least_upper_float(dtype) is dtypes.float16 for dtype in (dtypes.bool, *dtypes.ints))
        assert least_upper_float(dtypes.weakint) is dtypes.weakfloat


def test_can_lossless_cast_agrees_with_the_values_of_small_dtypes():
    small = [dtype for dtype in dtypes.all if dtype.itemsize <= 2]
    values = {dtype: {decode(dtype, bits) for bits in range(1 << dtype.bitsize)} for dtype in small}
    numbers = {dtype: {value for value in held if value == value} for dtype, held in values.items()}
    for source, target in itertools.product(small, repeat=2):
        loses_nan = source.is_float and not target.is_float
        assert can_lossless_cast(source, target) == (numbers[source] <= numbers[target] and not loses_nan)


def test_can_lossless_cast_of_large_dtypes():
    for source in WITH_VALUES:
        assert can_lossless_cast(source, dtypes.weakint) == (source.is_int or source.is_bool)
        assert can_lossless_cast(dtypes.weakint, source) == (source is dtypes.weakint)
        assert can_lossless_cast(source, dtypes.float64) == (source.is_float or source.itemsize in (1, 2, 4))
        assert can_lossless_cast(source, dtypes.float32) == (source.itemsize in (1, 2) or source is dtypes.float32)
        assert not can_lossless_cast(source, dtypes.void) and not can_lossless_cast(dtypes.void, source)
    assert can_lossless_cast(dtypes.uint32, dtypes.int64) and not can_lossless_cast(dtypes.uint64, dtypes.int64)
    assert can_lossless_cast(dtypes.weakfloat, dtypes.float64) and not can_lossless_cast(
        dtypes.weakfloat, dtypes.float32
    )


# ---- Bit patterns ----


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=repr)
def test_every_code_decodes_to_the_reference_value_and_encodes_back(dtype):
    codes = np.arange(1 << dtype.bitsize, dtype=UINT_OF_SIZE[dtype.itemsize])
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = codes.view(REFERENCE[dtype]).astype(np.float64).tolist()
    quiet = 1 << (dtype.mantissa_bits - 1)
    for bits, value in enumerate(expected):
        decoded = decode(dtype, bits)
        assert same(decoded, value), hex(bits)
        is_ieee_nan = math.isnan(value) and dtype.has_inf
        assert encode(dtype, decoded) == (bits | quiet if is_ieee_nan else bits), hex(bits)


@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64), ids=repr)
def test_random_codes_of_wide_floats_round_trip(dtype):
    numbers = random.Random(0)
    corners = [0, 1, 2, (1 << dtype.mantissa_bits) - 1, 1 << dtype.mantissa_bits, encode(dtype, math.inf)]
    codes = corners + [numbers.getrandbits(dtype.bitsize) for _ in range(5000)]
    for bits in codes + [code ^ (1 << (dtype.bitsize - 1)) for code in codes]:
        array = np.array([bits], dtype=UINT_OF_SIZE[dtype.itemsize])
        value = float(array.view(REFERENCE[dtype])[0])
        assert same(decode(dtype, bits), value)
        if value == value:
            assert encode(dtype, value) == bits


def test_integers_and_bools_round_trip_through_their_bits():
    for dtype in dtypes.ints:
        for value in (dtype.min, dtype.min + 1, 0, 1, dtype.max - 1, dtype.max):
            assert encode(dtype, value) == int(np.array([value], dtype.name).view(UINT_OF_SIZE[dtype.itemsize])[0])
            assert decode(dtype, encode(dtype, value)) == value
    assert [decode(dtypes.int8, bits) for bits in range(256)] == [*range(128), *range(-128, 0)]
    assert (encode(dtypes.bool, True), encode(dtypes.bool, 0.0)) == (1, 0)
    assert (decode(dtypes.bool, 0), decode(dtypes.bool, 1), decode(dtypes.bool, 255)) == (False, True, True)


def test_nan_sign_and_leading_payload_survive_where_they_fit():
    assert encode(dtypes.float16, decode(dtypes.float16, 0xFE2A)) == 0xFE2A
    assert encode(dtypes.bfloat16, decode(dtypes.float16, 0xFE28)) == 0xFFC5
    assert encode(dtypes.float32, decode(dtypes.float16, 0xFE2A)) == 0xFFC54000
    for dtype, code in ((dtypes.float16, 0xFE2A), (dtypes.float32, 0xFFC54321), (dtypes.bfloat16, 0xFFC5)):
        assert encode(dtype, round_float(dtype, decode(dtype, code))) == code
    assert encode(dtypes.fp8e4m3, decode(dtypes.float16, 0xFE2A)) == 0xFF
    assert encode(dtypes.fp8e4m3fnuz, decode(dtypes.float16, 0x7E00)) == 0x80


def test_bits_that_do_not_fit_and_dtypes_without_bits_are_refused():
    with pytest.raises(DTypeError, match=r"decode: not a bit pattern of dtypes.uint8\n  got 256\n  Pass 0 to 2\*\*8"):
        decode(dtypes.uint8, 256)
    with pytest.raises(DTypeError, match=r"not a bit pattern of dtypes.fp8e4m3"):
        fp8_to_float(-1, dtypes.fp8e4m3)
    for dtype in (dtypes.void, *WEAK):
        with pytest.raises(DTypeError, match=rf"encode: {dtype} has no bit pattern"):
            encode(dtype, 0)


# ---- Rounding ----


def corner_doubles(dtype: DType) -> list[float]:
    """Powers of two, the ends of the format, and every midpoint between neighbours, each with its double neighbours."""
    centres = [math.ldexp(1.0, exponent) for exponent in (*range(-160, 140), -1074, -1022, 1023)]
    centres += [dtype.largest, math.ldexp(1.0, -dtype.bias - dtype.mantissa_bits), 0.1, 1 / 3, 1e300]
    if dtype.itemsize == 1:
        finite = sorted({abs(value) for value in values_of(dtype) if math.isfinite(value)})
        centres += finite + [(low + high) / 2 for low, high in itertools.pairwise(finite)]
        centres.append(finite[-1] + (finite[-1] - finite[-2]) / 2)
    nearby = [centres, [math.nextafter(x, 0) for x in centres], [math.nextafter(x, math.inf) for x in centres]]
    magnitudes = [0.0, 5e-324, *itertools.chain(*nearby)]
    return magnitudes + [-value for value in magnitudes]


def random_doubles(dtype: DType, count: int) -> list[float]:
    """Half over all doubles, half around the range of the format with few bits set, where ties happen."""
    numbers = random.Random(dtype.name)
    anywhere = [struct.unpack("<d", struct.pack("<Q", numbers.getrandbits(64)))[0] for _ in range(count // 2)]
    low, high = 1 - dtype.bias - dtype.mantissa_bits - 3, math.frexp(dtype.largest)[1] + 1
    significands = [numbers.getrandbits(dtype.mantissa_bits + 3) for _ in range(count // 2)]
    low, high = max(low, -1074), min(high, 1000) - dtype.mantissa_bits - 3
    ties = [math.ldexp(numbers.choice((-1, 1)) * n, numbers.randint(low, high)) for n in significands]
    return [value for value in anywhere if value == value] + ties


@pytest.mark.parametrize("dtype", dtypes.floats, ids=repr)
def test_doubles_round_as_numpy_and_ml_dtypes_round_them_and_fp8_saturates(dtype):
    values = corner_doubles(dtype) + random_doubles(dtype, 4000)
    with np.errstate(all="ignore"):
        # ml_dtypes takes some doubles through float32, rounding twice: only ask it for doubles that are float32s.
        if dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
            values = [float(np.float32(value)) for value in values]
        expected = np.array(values).astype(REFERENCE[dtype]).astype(np.float64).tolist()
    for value, reference in zip(values, expected, strict=True):
        if dtype.saturates and not math.isfinite(reference):
            reference = math.copysign(dtype.largest, value)
        assert same(round_float(dtype, value), reference), value.hex()


@pytest.mark.parametrize("dtype", dtypes.fp8s, ids=repr)
def test_fp8_rounding_is_the_nearest_value_with_ties_to_even_codes(dtype):
    finite = sorted({value for value in values_of(dtype) if math.isfinite(value)})
    for value in corner_doubles(dtype) + random_doubles(dtype, 1000):
        if math.isfinite(value) and (dtype.saturates or abs(value) < 61440.0):
            assert round_float(dtype, value) == nearest_in(dtype, finite, value), value.hex()


def test_fp8_conversion_saturates_by_hand_values():
    hand = [
        (dtypes.fp8e4m3, 448.0, 0x7E, 464.0),
        (dtypes.fp8e4m3fnuz, 240.0, 0x7F, 248.0),
        (dtypes.fp8e5m2fnuz, 57344.0, 0x7F, 61440.0),
    ]
    for dtype, largest, code, past_the_tie in hand:
        for value in (largest, past_the_tie, 2 * largest, 1e300, math.inf):
            assert round_float(dtype, value) == convert(dtype, value) == largest
            assert round_float(dtype, -value) == -largest
            assert float_to_fp8(value, dtype) == code
            assert float_to_fp8(-value, dtype) == code | 0x80
        assert convert(dtype, 10**400) == largest
        assert math.isnan(round_float(dtype, math.nan))


def test_fp8e5m2_overflows_to_infinity_as_in_pytorch():
    for value, code in ((57344.0, 0x7B), (61439.0, 0x7B), (61440.0, 0x7C), (1e300, 0x7C), (math.inf, 0x7C)):
        assert float_to_fp8(value, dtypes.fp8e5m2) == encode(dtypes.fp8e5m2, value) == code
        assert float_to_fp8(-value, dtypes.fp8e5m2) == code | 0x80
    assert fp8_to_float(0x7C, dtypes.fp8e5m2) == convert(dtypes.fp8e5m2, 10**400) == math.inf


def test_fnuz_formats_have_no_negative_zero():
    for dtype in (dtypes.fp8e4m3fnuz, dtypes.fp8e5m2fnuz):
        for value in (-0.0, -1e-30):
            assert same(round_float(dtype, value), 0.0)
            assert encode(dtype, value) == 0
    assert same(round_float(dtypes.fp8e4m3, -0.0), -0.0)


def test_overflow_of_the_wider_floats_is_infinity():
    assert convert(dtypes.float16, 65519.99) == 65504.0
    assert convert(dtypes.float16, 65520.0) == math.inf
    assert convert(dtypes.float16, -65520) == -math.inf
    assert convert(dtypes.bfloat16, 3.4e38) == math.inf
    assert convert(dtypes.float32, -1e39) == -math.inf
    assert convert(dtypes.float64, -(10**400)) == -math.inf
    assert convert(dtypes.weakfloat, 10**400) == math.inf


def test_named_float_helpers_round():
    assert float_to_fp16(0.1) == float(np.float16(0.1))
    assert float_to_bf16(0.1) == float(ml_dtypes.bfloat16(0.1))
    assert fp8_to_float(float_to_fp8(0.3, dtypes.fp8e4m3), dtypes.fp8e4m3) == 0.3125
    with pytest.raises(DTypeError, match=r"float_to_fp8: expected an fp8 dtype\n  got dtypes.float16\n  Use"):
        float_to_fp8(1.0, dtypes.float16)
    with pytest.raises(DTypeError, match="round_float: expected a float dtype"):
        round_float(dtypes.int8, 1.0)


# ---- Conversions ----


@pytest.mark.parametrize("dtype", dtypes.ints, ids=repr)
@given(value=st.integers(-(2**70), 2**70))
def test_integers_wrap_to_their_low_bits(dtype, value):
    wrapped = wrap(dtype, value)
    assert dtype.min <= wrapped <= dtype.max
    assert (wrapped - value) % (1 << dtype.bitsize) == 0
    assert convert(dtype, value) == truncate[dtype](value) == wrapped


def test_weakint_does_not_wrap_and_floats_cannot():
    assert wrap(dtypes.weakint, 2**100) == convert(dtypes.weakint, 2**100) == 2**100
    with pytest.raises(DTypeError, match="wrap: expected an integer dtype"):
        wrap(dtypes.float32, 1)


@pytest.mark.parametrize(
    "dtype, value, expected",
    [
        (dtypes.uint8, 300.7, 255),
        (dtypes.uint8, 255.9, 255),
        (dtypes.uint8, -0.9, 0),
        (dtypes.uint8, -5.0, 0),
        (dtypes.int8, -128.9, -128),
        (dtypes.int8, -1.9, -1),
        (dtypes.int8, math.inf, 127),
        (dtypes.int64, 2.0**63, 2**63 - 1),
        (dtypes.int64, -math.inf, -(2**63)),
        (dtypes.uint64, 2.0**63, 2**63),
        (dtypes.uint64, 1e30, 2**64 - 1),
        (dtypes.int32, math.nan, 0),
        (dtypes.weakint, -2.9, -2),
        (dtypes.bool, math.nan, True),
        (dtypes.bool, -0.0, False),
        (dtypes.bool, 0.25, True),
        (dtypes.bool, 256, True),
        (dtypes.int8, True, 1),
        (dtypes.float32, True, 1.0),
        (dtypes.weakfloat, 3, 3.0),
    ],
)
def test_conversions_by_hand(dtype, value, expected):
    converted = convert(dtype, value)
    assert converted == expected and type(converted) is type(expected)
    assert dtypes.as_const(value, dtype) == expected


def test_as_const_takes_tuples():
    assert dtypes.as_const((1, 2.7, True), dtypes.uint8) == (1, 2, 1)


def test_what_cannot_be_converted_is_refused():
    with pytest.raises(DTypeError, match=r"cannot convert a str to dtypes.int8\n  got '1'\n  Pass a Python number"):
        convert(dtypes.int8, "1")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="void has no values"):
        convert(dtypes.void, 1)
    with pytest.raises(DTypeError, match="weakint has no infinity"):
        convert(dtypes.weakint, math.inf)


def exact_rounding(dtype: DType, value: int) -> float:
    """Round an int to nearest even with nothing but integers."""
    excess = max(abs(value).bit_length() - dtype.mantissa_bits - 1, 0)
    rounded: float = round(Fraction(abs(value), 1 << excess)) << excess
    if rounded > dtype.largest:
        rounded = dtype.largest if dtype.saturates else math.inf
    return math.copysign(rounded, value)


@pytest.mark.parametrize("dtype", dtypes.floats, ids=repr)
def test_large_integers_are_rounded_once(dtype):
    centres = [2**24 + 1, 2**53 + 1, 2**62 + 2**38, 2**11 + 1, 2**8 + 1, 255, 464, 248, 61440]
    centres += [16777217 << shift for shift in range(100)]
    tie = 2 * (1 << dtype.mantissa_bits) + 1  # halfway between two neighbours, wherever it is shifted
    centres += [(tie << shift) for shift in range(120)]
    for value in (centre + offset for centre in centres for offset in (-1, 0, 1)):
        assert convert(dtype, value) == exact_rounding(dtype, value), value
        assert convert(dtype, -value) == exact_rounding(dtype, -value), value


def test_a_tie_broken_below_double_precision_is_still_broken():
    value = (16777217 << 60) + 1  # as a double this is exactly halfway between two float32
    assert float(value) == float(16777217 << 60)
    assert convert(dtypes.float32, value) == 16777218.0 * 2.0**60
    assert convert(dtypes.float32, value - 1) == 16777216.0 * 2.0**60


@pytest.mark.parametrize("dtype", WITH_VALUES, ids=repr)
def test_converting_twice_is_converting_once(dtype):
    for value in (-1e9, -3.5, -0.0, 0.1, 1, 2.5, 77, 1000, 10**12, 1e30, True):
        once = truncate[dtype](value)
        assert same(abs(truncate[dtype](once)), abs(once))
