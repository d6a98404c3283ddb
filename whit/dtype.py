"""Data types: what an element can be, how two of them combine, and what a conversion does to a value.

In: Python scalars, dtype names, bit patterns. Out: `DType` singletons (compare them with `is`), and exactly rounded
Python values. Everything is computed here in plain Python, so that constant folding and the interpreter give the same
bits as a device without asking one. docs/dtypes.md tells the same story for users.

    >>> least_upper_dtype(dtypes.uint8, dtypes.int8)
    dtypes.int16
    >>> convert(dtypes.uint8, 300), convert(dtypes.uint8, 300.0)
    (44, 255)
    >>> hex(encode(dtypes.bfloat16, 3.14159))
    '0x4049'
"""

from __future__ import annotations

import builtins
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from whit.config import DEFAULT_FLOAT, DEFAULT_INT, Context
from whit.errors import DTypeError, nearest
from whit.records import dataclass

Scalar = bool | int | float | complex


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """One element type. There is exactly one object per type: get it from `dtypes` or `to_dtype`, never build one."""

    name: str
    kind: str  # "void" "bool" "int" "uint" "float" "complex" "index" (weakint) "weakfloat" "weakcomplex"
    priority: int  # a linear order that extends the promotion lattice
    bitsize: int  # 0 for the types that are never stored: void and the weak ones
    fmt: str | None  # the struct module's character, where it has one
    min: Any  # smallest value: bool, int or float (-inf); None where there is none
    max: Any
    # Floats only: sign, exponent, mantissa from the top bit down; value = 1.mantissa * 2**(exponent - bias).
    flavour: str = ""  # "ieee", "fn" (all ones is NaN, no inf), "fnuz" (0x80 is the one NaN, no inf, no -0)
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    largest: float = 0.0  # largest finite value
    saturates: bool = False  # conversions clamp to +-largest instead of overflowing
    # Worked out from the above once, because every layer asks all the time.
    itemsize: int = 0  # bytes
    is_float: bool = False
    is_int: bool = False
    is_unsigned: bool = False
    is_bool: bool = False
    is_complex: bool = False
    is_continuous: bool = False  # what has derivatives: floats and complex numbers
    has_inf: bool = False

    def __call__(self, value: Any) -> Any:
        """A number as this dtype has it: `dtypes.float32(0.1)`; a tensor, cast (NumPy, JAX)."""
        if isinstance(value, bool | int | float | complex):
            return convert(self, value)
        if hasattr(value, "cast"):
            return value.cast(self)
        raise DTypeError(
            f"{self.name}: {value!r:.60} is no number", fix="Of lists, make a tensor: Tensor(data, dtype=...)."
        )

    def __post_init__(self) -> None:
        derived = {
            "itemsize": (self.bitsize + 7) // 8,
            "is_float": self.kind in ("float", "weakfloat"),
            "is_int": self.kind in ("int", "uint", "index"),
            "is_unsigned": self.kind == "uint",
            "is_bool": self.kind == "bool",
            "is_complex": self.kind in ("complex", "weakcomplex"),
            "is_continuous": self.kind in ("float", "weakfloat", "complex", "weakcomplex"),
            "has_inf": self.flavour == "ieee",
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __eq__(self, other: object) -> bool:
        """`x.dtype == "float32"` and `x.dtype == np.float32` hold, too. Sets and dictionaries know the object alone."""
        return self is other or (type(other) is not DType and known_dtype(other) is self)

    __hash__ = object.__hash__

    def __lt__(self, other: DType) -> bool:
        """The order of `priority`, in which a common dtype of two is never before either."""
        return self.priority < other.priority if isinstance(other, DType) else NotImplemented

    def __le__(self, other: DType) -> bool:
        return self.priority <= other.priority if isinstance(other, DType) else NotImplemented

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return to_dtype, (self.name,)  # pickle and copy give back the one object


def _int(name: str, priority: int, bitsize: int, fmt: str) -> DType:
    if name.startswith("u"):
        return DType(name, "uint", priority, bitsize, fmt, min=0, max=2**bitsize - 1)
    return DType(name, "int", priority, bitsize, fmt, min=-(2 ** (bitsize - 1)), max=2 ** (bitsize - 1) - 1)


def _float(
    name: str, priority: int, exponent_bits: int, mantissa_bits: int, flavour: str, fmt: str | None = None
) -> DType:
    top_field = 2**exponent_bits - 1
    bias = 2 ** (exponent_bits - 1) - (0 if flavour == "fnuz" else 1)
    top_exponent = top_field - bias - (1 if flavour == "ieee" else 0)  # IEEE keeps the top field for inf and NaN
    lost_codes = 1 if flavour == "fn" else 0  # all ones is NaN
    significand = 2 ** (mantissa_bits + 1) - 1 - lost_codes
    weak = name == "weakfloat"
    return DType(
        name,
        "weakfloat" if weak else "float",
        priority,
        0 if weak else 1 + exponent_bits + mantissa_bits,
        fmt,
        min=-math.inf,
        max=math.inf,
        flavour=flavour,
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
        bias=bias,
        largest=math.ldexp(significand, top_exponent - mantissa_bits),
        saturates=name.startswith("fp8") and flavour != "ieee",
    )


def _complex(name: str, priority: int, bitsize: int) -> DType:
    """Two floats, the real part first in memory: `part_dtype` says of which dtype."""
    return DType(name, "complex" if bitsize else "weakcomplex", priority, bitsize, None, min=None, max=None)


class DTypes:
    """The names, groups and queries users reach as `dtypes`. Only `default_float` and `default_int` can be set.

    The class body names members `bool`, `int` and `float`, so annotations here spell the builtin types out.
    """

    __slots__ = ("_assigned_float", "_assigned_int")

    void: Final = DType("void", "void", -1, 0, None, min=None, max=None)
    bool_: Final = DType("bool", "bool", 0, 1, "?", min=False, max=True)
    weakint: Final = DType("weakint", "index", 1, 0, None, min=None, max=None)
    int8: Final = _int("int8", 2, 8, "b")
    uint8: Final = _int("uint8", 3, 8, "B")
    int16: Final = _int("int16", 4, 16, "h")
    uint16: Final = _int("uint16", 5, 16, "H")
    int32: Final = _int("int32", 6, 32, "i")
    uint32: Final = _int("uint32", 7, 32, "I")
    int64: Final = _int("int64", 8, 64, "q")
    uint64: Final = _int("uint64", 9, 64, "Q")
    weakfloat: Final = _float("weakfloat", 10, 11, 52, "ieee")
    fp8e4m3: Final = _float("fp8e4m3", 11, 4, 3, "fn")
    fp8e5m2: Final = _float("fp8e5m2", 12, 5, 2, "ieee")
    fp8e4m3fnuz: Final = _float("fp8e4m3fnuz", 13, 4, 3, "fnuz")
    fp8e5m2fnuz: Final = _float("fp8e5m2fnuz", 14, 5, 2, "fnuz")
    float16: Final = _float("float16", 15, 5, 10, "ieee", "e")
    bfloat16: Final = _float("bfloat16", 16, 8, 7, "ieee")
    float32: Final = _float("float32", 17, 8, 23, "ieee", "f")
    float64: Final = _float("float64", 18, 11, 52, "ieee", "d")
    weakcomplex: Final = _complex("weakcomplex", 19, 0)
    complex64: Final = _complex("complex64", 20, 64)
    complex128: Final = _complex("complex128", 21, 128)

    fp8s: Final = (fp8e4m3, fp8e5m2, fp8e4m3fnuz, fp8e5m2fnuz)
    fp8_ocp: Final = (fp8e4m3, fp8e5m2)  # those of the Open Compute Project
    fp8_fnuz: Final = (fp8e4m3fnuz, fp8e5m2fnuz)  # those without -0 and infinities
    float16s: Final = (float16, bfloat16)  # floats of 16 bits
    floats: Final = (*fp8s, *float16s, float32, float64)
    uints: Final = (uint8, uint16, uint32, uint64)
    sints: Final = (int8, int16, int32, int64)
    ints: Final = (*uints, *sints)
    complexes: Final = (complex64, complex128)  # numbers of two floats: tensors have them, kernels see the floats
    scalars: Final = (bool_, *ints, *floats)  # what a kernel computes with
    all: Final = (*scalars, *complexes)  # everything that can be stored

    half: Final = float16
    double: Final = float64
    char: Final = int8
    uchar: Final = uint8
    short: Final = int16
    ushort: Final = uint16
    uint: Final = uint32
    long: Final = int64
    ulong: Final = uint64
    index: Final = weakint
    bool: Final = bool_
    cfloat: Final = complex64
    cdouble: Final = complex128
    int: Final = int32
    float: Final = float32
    complex: Final = complex64

    def __init__(self) -> None:
        self._assigned_float: DType | None = None
        self._assigned_int: DType | None = None

    @property
    def default_float(self) -> DType:
        """What a Python float becomes when nothing else decides."""
        assigned = self._assigned_float if DEFAULT_FLOAT.scoped is None else None
        return assigned or _checked_default("default_float", DEFAULT_FLOAT.value)

    @default_float.setter
    def default_float(self, dtype: DType) -> None:
        checked = _checked_default("default_float", dtype)
        if DEFAULT_FLOAT.scoped is not None:
            DEFAULT_FLOAT.assign(checked.name)
        else:  # threads start with an empty context, so an assignment has to be process-wide to reach them
            self._assigned_float = checked

    @property
    def default_int(self) -> DType:
        """What a Python int becomes when nothing else decides."""
        assigned = self._assigned_int if DEFAULT_INT.scoped is None else None
        return assigned or _checked_default("default_int", DEFAULT_INT.value)

    @default_int.setter
    def default_int(self, dtype: DType) -> None:
        checked = _checked_default("default_int", dtype)
        if DEFAULT_INT.scoped is not None:
            DEFAULT_INT.assign(checked.name)
        else:
            self._assigned_int = checked

    def defaults(self, *, float: DType | str | None = None, int: DType | str | None = None) -> Context:
        """`with dtypes.defaults(float=dtypes.float16):` changes the defaults for the block only."""
        chosen_float = _checked_default("default_float", float or self.default_float)
        chosen_int = _checked_default("default_int", int or self.default_int)
        return Context(DEFAULT_FLOAT=chosen_float.name, DEFAULT_INT=chosen_int.name)

    @staticmethod
    def is_float(dtype: DType) -> builtins.bool:
        return dtype.is_float

    @staticmethod
    def is_int(dtype: DType) -> builtins.bool:
        return dtype.is_int

    @staticmethod
    def is_unsigned(dtype: DType) -> builtins.bool:
        return dtype.is_unsigned

    @staticmethod
    def is_bool(dtype: DType) -> builtins.bool:
        return dtype.is_bool

    @staticmethod
    def is_complex(dtype: DType) -> builtins.bool:
        return dtype.is_complex

    @property
    def default_complex(self) -> DType:
        """What a Python complex number becomes when nothing else decides: complex128 beside a default of float64."""
        return complex_dtype(self.default_float)

    @staticmethod
    def min(dtype: DType) -> Any:
        """Smallest value: False, an int, or -inf; None for weakint and void."""
        return dtype.min

    @staticmethod
    def max(dtype: DType) -> Any:
        """Largest value: True, an int, or inf; None for weakint and void."""
        return dtype.max

    @staticmethod
    def finfo(dtype: DType) -> tuple[builtins.int, builtins.int]:
        """(exponent bits, mantissa bits) of a float dtype; of a complex one, those of its parts."""
        dtype = part_dtype(dtype)
        if not dtype.is_float:
            raise DTypeError("finfo: expected a float dtype", f"got {dtype}", "Ask dtypes.is_float first.")
        return dtype.exponent_bits, dtype.mantissa_bits

    @staticmethod
    def from_py(value: Any) -> DType:
        """The dtype a tensor of this Python value gets: bool, `default_int`, `default_float` or `default_complex`.

        Of a (nested) list or tuple: the promotion of its elements, and `default_float` when it is empty.
        """
        return resolve_weak(weak_dtype(value))

    @staticmethod
    def as_const(value: Any, dtype: DType) -> Any:
        """`value`, or each element of a tuple of values, as the Python scalar that `dtype` holds for it."""
        if isinstance(value, tuple):
            return tuple(convert(dtype, element) for element in value)
        return convert(dtype, value)


dtypes: Final = DTypes()
DTypeLike = DType | str | type[Any]  # what can be given as a dtype

_ALIASES: Final = {
    name: member
    for name, member in vars(DTypes).items()
    if isinstance(member, DType) and name not in (member.name, "bool_")
}
_WEAK: Final = (dtypes.weakint, dtypes.weakfloat, dtypes.weakcomplex)
_BY_NAME: Final = {dtype.name: dtype for dtype in (dtypes.void, *_WEAK, *dtypes.all)}
_ELSEWHERE: Final = {
    "bool_": dtypes.bool_,
    "float8_e4m3fn": dtypes.fp8e4m3,
    "float8_e5m2": dtypes.fp8e5m2,
    "float8_e4m3fnuz": dtypes.fp8e4m3fnuz,
    "float8_e5m2fnuz": dtypes.fp8e5m2fnuz,
}
_ALL_NAMES: Final = {**_BY_NAME, **_ALIASES, **_ELSEWHERE}

# Name or alias -> dtype, for everything that can be stored.
DTYPES_DICT: Final[dict[str, DType]] = {name: dtype for name, dtype in _ALL_NAMES.items() if dtype in dtypes.all}


def to_dtype(name: DTypeLike) -> DType:
    """A dtype from itself, its name or an alias, in any case: `to_dtype("Half") is dtypes.float16`. Also from a dtype
    of NumPy or PyTorch; `complex`, `float`, `int` and `bool` are what Python's numbers become."""
    if isinstance(name, DType):
        return name
    found = known_dtype(name)
    if found is not None:
        return found
    if not isinstance(name, str):
        raise DTypeError(
            "dtype: expected a dtype or its name", f"got {name!r}, a {type(name).__name__}", 'Pass dtypes.x or "x".'
        )
    raise DTypeError(
        f"dtype: there is no dtype named {name!r}",
        "known: " + ", ".join(_BY_NAME),
        nearest(name, _ALL_NAMES).strip() or "Use one of the known names.",
    )


def known_dtype(name: Any) -> DType | None:
    """The dtype that is called so here, or by Python, NumPy or PyTorch."""
    if name is builtins.float:
        return dtypes.default_float
    if name is builtins.int:
        return dtypes.default_int
    if name is builtins.complex:
        return dtypes.default_complex
    if isinstance(name, type):  # np.float32
        name = name.__name__
    elif not isinstance(name, str):
        name = getattr(name, "name", None) or str(name)  # np.dtype("float32"), torch.float32
    return _ALL_NAMES.get(name.strip().lower().removeprefix("torch.")) if isinstance(name, str) else None


def _checked_default(which: str, dtype: DTypeLike) -> DType:
    found = to_dtype(dtype)
    kind, group, example = {
        "default_float": ("a float dtype", dtypes.floats, "dtypes.float32"),
        "default_int": ("an integer dtype", dtypes.ints, "dtypes.int32"),
    }[which]
    if found not in group:
        raise DTypeError(f"{which}: expected {kind}", f"got {found}", f"Try {example}.")
    return found


# ---- Promotion ----

# Each dtype points at the ones just above it. This is JAX's lattice, plus the edges from fp8 to bfloat16 where JAX
# refuses to choose: the product of any two fp8 numbers is exact in bfloat16 and can overflow float16.
_JUST_ABOVE: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool_: (dtypes.weakint,),
    dtypes.weakint: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (dtypes.weakfloat,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: (dtypes.weakfloat,),
    dtypes.weakfloat: (*dtypes.fp8s, dtypes.float16, dtypes.weakcomplex),
    **dict.fromkeys(dtypes.fp8s, (dtypes.bfloat16,)),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64, dtypes.complex64),
    dtypes.float64: (dtypes.complex128,),
    dtypes.weakcomplex: (dtypes.complex64,),
    dtypes.complex64: (dtypes.complex128,),
    dtypes.complex128: (),
    dtypes.void: (),
}


@functools.cache  # one entry per dtype: 0.4 -> 0.1 ms
def _reachable(dtype: DType) -> frozenset[DType]:
    """The dtype and everything above it."""
    return frozenset({dtype}).union(*(_reachable(above) for above in _JUST_ABOVE[dtype]))


# In a lattice, what lies above both a and b is exactly what lies above their join; so a join is a set intersection.
_ABOVE: Final = {dtype: _reachable(dtype) for dtype in _JUST_ABOVE}
_JOIN_OF: Final = {above: dtype for dtype, above in _ABOVE.items()}


@functools.cache  # at most one entry per pair of dtypes
def _join(left: DType, right: DType) -> DType:
    joined = _JOIN_OF.get(_ABOVE[left] & _ABOVE[right])
    if joined is None:
        raise DTypeError(f"promotion: {left} and {right} have no common dtype", "", "void has no values to combine.")
    return joined


def least_upper_dtype(*dts: DType) -> DType:
    """The dtype an operation on these dtypes computes in. Weak operands alone give a weak result."""
    if not dts:
        raise DTypeError("promotion: needs at least one dtype", "got none", "Pass the dtype of every operand.")
    return functools.reduce(_join, dts)


def resolve_weak(dtype: DType) -> DType:
    """weakint, weakfloat and weakcomplex -> `default_int`, ..., any other dtype unchanged."""
    if dtype is dtypes.weakint:
        return dtypes.default_int
    if dtype is dtypes.weakfloat:
        return dtypes.default_float
    return dtypes.default_complex if dtype is dtypes.weakcomplex else dtype


strong_dtype = resolve_weak  # the name that programs for tinygrad know


_PARTS: Final = {
    dtypes.complex64: dtypes.float32,
    dtypes.complex128: dtypes.float64,
    dtypes.weakcomplex: dtypes.weakfloat,
}


def part_dtype(dtype: DType) -> DType:
    """The dtype of the real and the imaginary part of a complex one; any other dtype itself."""
    return _PARTS.get(dtype, dtype)


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype whose parts hold numbers of this dtype: complex128 of float64, else complex64."""
    if dtype.is_complex:
        return dtype
    return dtypes.complex128 if dtype is dtypes.float64 else dtypes.complex64


def least_upper_float(dtype: DType) -> DType:
    """The dtype of sin, exp, division ... of `dtype`: floats and complex numbers stay, the rest goes to
    `default_float`."""
    if dtype.is_continuous:
        return dtype
    if dtype is dtypes.weakint:
        return dtypes.weakfloat
    return least_upper_dtype(dtype, dtypes.default_float)


def weak_dtype(value: Any) -> DType:
    """The dtype of a Python scalar before promotion: bool, weakint, weakfloat or weakcomplex; of a sequence, its
    elements joined."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.weakint
    if isinstance(value, float):
        return dtypes.weakfloat
    if isinstance(value, complex):
        return dtypes.weakcomplex
    if isinstance(value, list | tuple):
        return least_upper_dtype(*map(weak_dtype, value)) if value else dtypes.weakfloat
    raise DTypeError(
        "dtype: cannot tell the dtype of a Python value",
        f"got {value!r}, a {type(value).__name__}",
        "Pass a bool, an int, a float, a complex number, or a list or tuple of them.",
    )


def can_lossless_cast(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source is target:
        return True
    if dtypes.void in (source, target) or target is dtypes.bool_:
        return False
    if source is dtypes.bool_ or (source.is_int and target is dtypes.weakint):
        return True
    if source is dtypes.weakint:
        return False
    if target.is_complex:
        return can_lossless_cast(part_dtype(source), part_dtype(target))
    return not source.is_complex and _is_among_reals(source, target)


def _is_among_reals(source: DType, target: DType) -> bool:
    """The same of sized integers and floats."""
    if source.is_int and target.is_int:
        return bool(target.min <= source.min and source.max <= target.max)
    if source.is_int:
        return bool(source.max.bit_length() <= target.mantissa_bits + 1 and -source.min <= target.largest)
    return not target.is_int and _is_among_floats(source, target)


def _is_among_floats(source: DType, target: DType) -> bool:
    """Whether every value of a float dtype is one of another."""
    return (
        source.mantissa_bits <= target.mantissa_bits
        and _smallest_exponent(source) >= _smallest_exponent(target)
        and source.largest <= target.largest
        and (target.has_inf or not source.has_inf)
    )


# ---- Values ----


def _smallest_exponent(dtype: DType) -> int:
    """The exponent of the smallest subnormal, of which every finite value is a multiple."""
    return 1 - dtype.bias - dtype.mantissa_bits


_PACK_FLOAT: Final = struct.Struct("<f")
_PACK_DOUBLE: Final = struct.Struct("<d")
_PACK_HALF: Final = struct.Struct("<e")
_PACK_64: Final = struct.Struct("<Q")


def _double_bits(value: float) -> int:
    bits: int = _PACK_64.unpack(_PACK_DOUBLE.pack(value))[0]
    return bits


def _double_from_bits(bits: int) -> float:
    value: float = _PACK_DOUBLE.unpack(_PACK_64.pack(bits))[0]
    return value


def _round_any(dtype: DType, value: float) -> float:
    """Round to nearest even by the format's numbers alone; each step is exact in double but the one `round`."""
    if value != value:
        return _decode_float(dtype, _encode_float(dtype, value))
    if math.isinf(value):
        return math.copysign(dtype.largest, value) if dtype.saturates or not dtype.has_inf else value
    if abs(value) > 2 * dtype.largest:  # far outside: ldexp itself could overflow below
        return math.copysign(dtype.largest if dtype.saturates else math.inf, value)
    _, exponent = math.frexp(value)
    unit = max(exponent - dtype.mantissa_bits - 1, _smallest_exponent(dtype))  # log2 of the spacing around value
    rounded = math.ldexp(round(math.ldexp(value, -unit)), unit)
    if abs(rounded) > dtype.largest:
        return math.copysign(dtype.largest if dtype.saturates else math.inf, value)
    if rounded == 0.0:
        return 0.0 if dtype.flavour == "fnuz" else math.copysign(0.0, value)
    return rounded


def _round_float32(value: float) -> float:
    try:
        rounded: float = _PACK_FLOAT.unpack(_PACK_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def _round_float16(value: float) -> float:
    if value != value:
        return _round_any(dtypes.float16, value)  # struct drops the payload
    try:
        rounded: float = _PACK_HALF.unpack(_PACK_HALF.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


_ROUND: Final[dict[DType, Callable[[float], float]]] = {
    **{dtype: functools.partial(_round_any, dtype) for dtype in dtypes.floats},
    dtypes.float16: _round_float16,
    dtypes.float32: _round_float32,
    dtypes.float64: float,
    dtypes.weakfloat: float,
}


def round_float(dtype: DType, value: float) -> float:
    """The value of `dtype` nearest to a double, ties to even; past the largest: inf, and for fp8 the largest."""
    rounder = _ROUND.get(dtype)
    if rounder is None:
        raise DTypeError("round_float: expected a float dtype", f"got {dtype}", "Use convert for other dtypes.")
    return rounder(value)


def _float_from_int(dtype: DType, value: int) -> float:
    """Round an int of any size once. Past 53 bits, cut to 53 and set the last bit if anything was cut off: that keeps
    it on the same side of every rounding boundary of a narrower format."""
    excess = abs(value).bit_length() - 53
    try:
        if excess <= 0 or dtype.mantissa_bits == 52:
            return round_float(dtype, float(value))
        kept = abs(value) >> excess
        sticky = kept | (kept << excess != abs(value))
        nearby = math.ldexp(sticky, excess)
    except OverflowError:
        nearby = math.inf
    return round_float(dtype, -nearby if value < 0 else nearby)


def wrap(dtype: DType, value: int) -> int:
    """Keep the low bits of an integer, as two's complement arithmetic does; weakint has no bound and keeps all."""
    if dtype.kind == "index":
        return value
    if not dtype.is_int:
        raise DTypeError("wrap: expected an integer dtype", f"got {dtype}", "Use convert for other dtypes.")
    low = value & ((1 << dtype.bitsize) - 1)
    return low if dtype.is_unsigned or low <= dtype.max else low - (1 << dtype.bitsize)


def _int_from_float(dtype: DType, value: float) -> int:
    if value != value:
        return 0
    if dtype is dtypes.weakint:
        if math.isinf(value):
            raise DTypeError("convert: weakint has no infinity", f"got {value}", "Convert to a sized dtype instead.")
        return int(value)
    if value <= dtype.min:
        return int(dtype.min)
    if value >= dtype.max:
        return int(dtype.max)
    return int(value)


def convert(dtype: DType, value: Scalar) -> Any:
    """The Python scalar that a cast of `value` to `dtype` yields.

    float -> int drops the fraction and clamps to the range, NaN gives 0; int -> int wraps; to float rounds once to
    nearest even; to bool is `!= 0`. Of a complex number, all but bool and complex dtypes take the real part.
    """
    if dtype.is_complex:
        return _complex_from(part_dtype(dtype), value)
    if isinstance(value, complex):
        return value != 0 if dtype.is_bool else convert(dtype, value.real)
    if isinstance(value, float):
        if dtype.is_float:
            return _ROUND[dtype](value)
        if dtype.is_int:
            return _int_from_float(dtype, value)
    elif isinstance(value, int):
        if dtype.is_int:
            return wrap(dtype, int(value))
        if dtype.is_float:
            return _float_from_int(dtype, value)
    else:
        raise DTypeError(
            f"convert: cannot convert a {type(value).__name__} to {dtype}", f"got {value!r}", "Pass a Python number."
        )
    if dtype.is_bool:
        return value != 0
    raise DTypeError("convert: void has no values", f"got {value!r}", "Name the dtype the value should have.")


def _complex_from(part: DType, value: Scalar) -> complex:
    """A number with both of its parts rounded."""
    if isinstance(value, complex):
        return complex(round_float(part, value.real), round_float(part, value.imag))
    return complex(convert(part, value), 0.0)


# dtype -> function of a Python scalar: `truncate[dtypes.uint8](300) == 44`.
truncate: Final[dict[DType, Callable[[Scalar], Any]]] = {
    dtype: functools.partial(convert, dtype) for dtype in (*_WEAK, *dtypes.all)
}


# ---- Bit patterns ----


def _encode_float(dtype: DType, value: float) -> int:
    """The code of a value that `dtype` has."""
    sign = (math.copysign(1.0, value) < 0) << (dtype.bitsize - 1)
    top_exponent = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
    if value != value:
        if dtype.flavour == "fnuz":
            return 1 << (dtype.bitsize - 1)
        if dtype.flavour == "fn":
            return sign | ((1 << (dtype.bitsize - 1)) - 1)
        payload = (_double_bits(value) & ((1 << 52) - 1)) >> (52 - dtype.mantissa_bits)
        quiet = 1 << (dtype.mantissa_bits - 1)
        return sign | top_exponent | quiet | payload
    if math.isinf(value):
        return sign | top_exponent
    if value == 0.0:
        return 0 if dtype.flavour == "fnuz" else sign
    fraction, exponent = math.frexp(abs(value))  # in [0.5, 1)
    field = exponent - 1 + dtype.bias
    if field <= 0:
        return sign | int(math.ldexp(abs(value), -_smallest_exponent(dtype)))
    mantissa = int(math.ldexp(fraction, dtype.mantissa_bits + 1)) - (1 << dtype.mantissa_bits)
    return sign | (field << dtype.mantissa_bits) | mantissa


def _decode_float(dtype: DType, bits: int) -> float:
    mantissa = bits & ((1 << dtype.mantissa_bits) - 1)
    top_field = (1 << dtype.exponent_bits) - 1
    field = (bits >> dtype.mantissa_bits) & top_field
    sign = bits >> (dtype.bitsize - 1)
    all_ones = (1 << (dtype.bitsize - 1)) - 1
    is_nan = {
        "ieee": field == top_field and mantissa != 0,
        "fn": bits & all_ones == all_ones,
        "fnuz": bits == all_ones + 1,
    }
    if is_nan[dtype.flavour]:
        payload = mantissa << (52 - dtype.mantissa_bits) if dtype.flavour == "ieee" else 1 << 51
        return _double_from_bits((sign << 63) | (0x7FF << 52) | payload)
    if dtype.has_inf and field == top_field:
        magnitude = math.inf
    elif field == 0:
        magnitude = math.ldexp(mantissa, _smallest_exponent(dtype))
    else:
        magnitude = math.ldexp(mantissa + (1 << dtype.mantissa_bits), field - 1 + _smallest_exponent(dtype))
    return -magnitude if sign else magnitude


def _require_bits(action: str, dtype: DType) -> None:
    if dtype.bitsize == 0:
        raise DTypeError(f"{action}: {dtype} has no bit pattern", "it is never stored", "Use resolve_weak first.")


def encode(dtype: DType, value: Scalar) -> int:
    """The bit pattern that stores `value`, converted first if the dtype does not have it.

    What the dtype has is kept, so that encode undoes decode.
    """
    _require_bits("encode", dtype)
    if dtype.is_complex:
        part, number = part_dtype(dtype), convert(dtype, value)
        return encode(part, number.real) | encode(part, number.imag) << part.bitsize
    if not dtype.is_float:
        return int(convert(dtype, value)) & ((1 << dtype.bitsize) - 1)
    return _encode_float(dtype, convert(dtype, value))


def decode(dtype: DType, bits: int) -> Any:
    """The Python scalar stored as `bits`, an integer of 0 up to 2 ** (8 * itemsize) - 1."""
    _require_bits("decode", dtype)
    if not 0 <= bits < 1 << (8 * dtype.itemsize):
        raise DTypeError(
            f"decode: not a bit pattern of {dtype}", f"got {bits}", f"Pass 0 to 2**{8 * dtype.itemsize} - 1."
        )
    if dtype.is_complex:
        part = part_dtype(dtype)
        real, imaginary = (_decode_float(part, bits >> shift & (1 << part.bitsize) - 1) for shift in (0, part.bitsize))
        return complex(real, imaginary)
    if dtype.is_float:
        return _decode_float(dtype, bits)
    return bits != 0 if dtype.is_bool else wrap(dtype, bits)


def float_to_fp16(value: float) -> float:
    """The float16 nearest to `value`, as a Python float."""
    return _round_float16(value)


def float_to_bf16(value: float) -> float:
    """The bfloat16 nearest to `value`, as a Python float."""
    return _round_any(dtypes.bfloat16, value)


def _require_fp8(action: str, dtype: DType) -> None:
    if dtype not in dtypes.fp8s:
        raise DTypeError(f"{action}: expected an fp8 dtype", f"got {dtype}", "Use one of dtypes.fp8s.")


def float_to_fp8(value: float, dtype: DType) -> int:
    """The bits of the fp8 nearest to `value`; what is too large is inf in fp8e5m2, else the largest finite number."""
    _require_fp8("float_to_fp8", dtype)
    return _encode_float(dtype, convert(dtype, value))


def fp8_to_float(bits: int, dtype: DType) -> float:
    """The value of an fp8 bit pattern."""
    _require_fp8("fp8_to_float", dtype)
    value: float = decode(dtype, bits)
    return value
