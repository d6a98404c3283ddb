"""The numbers of whit/codegen/math/expand.py and its neighbours: polynomials, constants in several parts, 2/pi.

Polynomials are lists of coefficients, the lowest first; bench/minimax.py finds them, and the comment behind each is the
largest error of the result that it causes, relative to the result. A constant in parts is an unevaluated sum: each part
is what the sum of the earlier ones leaves over, rounded to the dtype.
"""

from __future__ import annotations

from whit.dtype import DType, dtypes, encode
from whit.errors import DTypeError
from whit.ir.uop import UOp
from whit.records import dataclass

Coefficients = tuple[float, ...]


@dataclass(frozen=True)
class Format:
    """A float dtype that the functions are computed in, and their numbers for it."""

    dtype: DType
    integer: DType  # signed, of the same size
    exp2: Coefficients  # (2**f - 1) / f for |f| <= 1/2
    log2: Coefficients  # (log2(1 + f) - f/ln 2) / f**2 for |f| <= 1/3
    pow: Coefficients  # R(s**2) where log2((1 + s) / (1 - s)) = (2 s + 2/3 s**3) / ln 2 + R(s**2) s**5
    erf_small: Coefficients  # erf(x) / x - 1 as a function of x**2, for |x| <= 1
    erf_large: Coefficients  # log2(1 - erf(x)) for 1 <= x <= erf_end
    erf_end: float  # from here on erf is 1
    log2_e: tuple[float, float]  # 1/ln 2 in two parts
    ln_2: tuple[float, float]  # both parts are positive, so that infinity times them has one sign
    two_over_ln_2: tuple[float, float]
    two_thirds_over_ln_2: tuple[float, float]
    tanh_depth: int  # of the continued fraction for |x| <= TANH_SPLIT
    tanh_end: float  # from here on tanh is 1

    @property
    def mantissa(self) -> int:
        return self.dtype.mantissa_bits

    @property
    def magic(self) -> float:
        """Added to a number below 2**(mantissa - 1), rounds it to an integer, which the last bits of the sum hold."""
        return 1.5 * 2.0**self.mantissa

    @property
    def half_range(self) -> int:
        """Half of the largest exponent: 2**n for n in +-3 of these is a product of two floats, in two steps."""
        return (self.dtype.bias + 1) // 2

    def bits(self, value: float) -> int:
        """The bits of a number that is not negative, as an integer."""
        return encode(self.dtype, value)


TANH_SPLIT = 0.5625

FLOAT32 = Format(
    dtypes.float32,
    dtypes.int32,
    exp2=(  # error 2**-25.9
        0.6931471824645996,
        0.24022647738456726,
        0.055503323674201965,
        0.009618437848985195,
        0.0013398873852565885,
        0.0001535335322842002,
    ),
    log2=(  # error 2**-26.5
        -0.7213475108146667,
        0.480896532535553,
        -0.36066967248916626,
        0.2886940538883209,
        -0.24067479372024536,
        0.20199398696422577,
        -0.1755351424217224,
        0.2020462602376938,
        -0.18681293725967407,
    ),
    pow=(  # error 2**-35.8
        0.5770801901817322,
        0.4118473529815674,
        0.337876558303833,
    ),
    erf_small=(  # error 2**-28.8
        0.12837916612625122,
        -0.3761262595653534,
        0.1128358542919159,
        -0.026853812858462334,
        0.00518832728266716,
        -0.0008010190795175731,
        7.853849820094183e-05,
    ),
    erf_large=(  # error 2**-28.9
        -0.0004927885602228343,
        -1.6260457038879395,
        -0.9206488728523254,
        -0.1487511545419693,
        0.03150545433163643,
        -0.004252518992871046,
        0.0002688829554244876,
    ),
    erf_end=4.0,
    log2_e=(1.4426950216293335, 1.925963033500011e-08),
    ln_2=(0.6931471228599548, 5.769998878690785e-08),
    two_over_ln_2=(2.885390043258667, 3.851926067000022e-08),
    two_thirds_over_ln_2=(0.9617967009544373, -7.028461812552678e-09),
    tanh_depth=5,
    tanh_end=10.0,
)
FLOAT64 = Format(
    dtypes.float64,
    dtypes.int64,
    exp2=(  # error 2**-55.0
        0.6931471805599453,
        0.2402265069591013,
        0.055504108664820084,
        0.009618129107594122,
        0.0013333558146774466,
        0.00015403530457108635,
        1.5252733493269551e-05,
        1.3215435283872907e-06,
        1.0178199517804922e-07,
        7.0737830057623714e-09,
        4.4347785734106745e-10,
    ),
    log2=(  # error 2**-57.2
        -0.7213475204444817,
        0.4808983469629852,
        -0.3606737602222287,
        0.2885390081789082,
        -0.24044917348458558,
        0.20609929138785485,
        -0.1803368797632233,
        0.1602994614498221,
        -0.14426952542507923,
        0.13115356393414862,
        -0.12022379677219135,
        0.11099046509100675,
        -0.10306825151998168,
        0.0959475705975901,
        -0.08988401208144552,
        0.08731668914626477,
        -0.08294717840478054,
        0.060204952159994767,
        -0.05525688588450216,
        0.12268362863590027,
        -0.12044633492489513,
    ),
    pow=(  # error 2**-65.2
        0.5770780163556182,
        0.4121985830918491,
        0.32059890229073074,
        0.26230769954623173,
        0.22198407382083263,
        0.19125331768580053,
        0.1904031621764606,
    ),
    erf_small=(  # error 2**-56.3
        0.1283791670955126,
        -0.3761263890318375,
        0.11283791670954857,
        -0.026866170645072907,
        0.0052239776247809695,
        -0.0008548326978747528,
        0.00012055331037075386,
        -1.4925593510737888e-05,
        1.6460972873652692e-06,
        -1.63500257773408e-07,
        1.4657883312355503e-08,
        -1.136567851307598e-09,
        5.945281723987801e-11,
    ),
    erf_large=(  # error 2**-57.2
        -2.592105096814132e-07,
        -1.627904376432141,
        -0.9184607674212016,
        -0.14823294053230393,
        0.027523937767205475,
        0.0004046944283605471,
        -0.0025521690069428915,
        0.0009250533371237207,
        -6.469136856853413e-05,
        -0.00010150262487876548,
        6.496836440580378e-05,
        -2.3822097431559413e-05,
        6.241894712580606e-06,
        -1.2269630752468771e-06,
        1.8132777888075352e-07,
        -1.9655970243502253e-08,
        1.4795008698488266e-09,
        -6.917784979152833e-11,
        1.5139315050869437e-12,
    ),
    erf_end=6.0,
    log2_e=(1.4426950408889634, 2.0355273740931033e-17),
    ln_2=(0.6931471805599453, 2.3190468138462996e-17),
    two_over_ln_2=(2.8853900817779268, 4.0710547481862066e-17),
    two_thirds_over_ln_2=(0.9617966939259756, 5.0577616648125907e-17),
    tanh_depth=8,
    tanh_end=20.0,
)
FORMATS = {dtypes.float32: FLOAT32, dtypes.float64: FLOAT64}
SMALL_FLOATS = frozenset(dtypes.floats) - FORMATS.keys()  # computed in float32


def format_of(name: str, x: UOp) -> Format:
    """The numbers for the dtype of x."""
    found = FORMATS.get(x.dtype)
    if found is None:
        raise DTypeError(f"{name}: is computed in float32 or float64", x.short(), "Cast the operand.")
    return found


# ---- sine and cosine

# sin(pi u) / u as a function of u**2, for |u| <= 0.63: float32's sine, computed in float64
SIN_HALF_TURNS = (  # error 2**-31.3
    3.1415926523881423,
    -5.167712584326917,
    2.5501587078697425,
    -0.5992103136393455,
    0.08189289323631613,
    -0.0068180385222154395,
)
# sin(r) = r + r**3 S(r**2) and cos(r) = 1 - r**2/2 + r**4 C(r**2) for |r| <= pi/4: float64's
SIN_TAIL = (  # error 2**-57.8
    -0.1666666666666663,
    0.008333333333321835,
    -0.00019841269829354346,
    2.755731353706284e-06,
    -2.505073416056294e-08,
    1.5895419912113352e-10,
)
COS_TAIL = (  # error 2**-59.2
    0.04166666666666659,
    -0.0013888888888872652,
    2.4801587288593054e-05,
    -2.7557314102767906e-07,
    2.087569020545807e-09,
    -1.1357974217923864e-11,
)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)

# 2/pi * 2**1280, rounded down: enough for the largest float64 and 190 bits after it
TWO_OVER_PI_BITS = 1280
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)


def two_over_pi_word(first_bit: int) -> int:
    """64 bits of 2/pi from the bit with the weight 2**-(first_bit + 1) on; zeros before the first."""
    return (TWO_OVER_PI >> (TWO_OVER_PI_BITS - 64 - first_bit)) & (2**64 - 1)


def one_over_pi_without(skipped: int) -> tuple[float, float]:
    """1/pi less its bits of weight 2**-skipped and more, as two float64."""
    rest, whole = TWO_OVER_PI % (1 << (TWO_OVER_PI_BITS + 1 - skipped)), 1 << (TWO_OVER_PI_BITS + 1)
    high = rest / whole  # of integers, rounded once
    above, below = high.as_integer_ratio()
    return high, (rest * below - above * whole) / (whole * below)
