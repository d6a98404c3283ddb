"""Programs whose results depend on something besides tensors and arguments, which changes between calls.

A row is a setup, the function `f` (an expression in `x`, or a whole definition), and changes. The function is called
twice after the setup and after each change, plainly and under TinyJit. Everything must be equal, or the JIT must refuse
with an error; rows of REFUSED are those where it does, and the others must be equal.
"""

# ruff: noqa: E501  (the text of a program is one string)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    setup: str
    f: str
    changes: tuple[str, ...]
    is_refused: bool = False


ROWS: list[Row] = []


def row(name: str, setup: str, f: str, *changes: str) -> None:
    ROWS.append(Row(name, setup, f, changes))


def refused(name: str, setup: str, f: str, *changes: str) -> None:
    ROWS.append(Row(name, setup, f, changes, True))


# ---- objects with attributes

C = "class C:\n    k = 2\n"
row("namespace of argparse", "import argparse\nc = argparse.Namespace(k=2)", "x * c.k", "c.k = 3")
row("simple namespace", "from types import SimpleNamespace\nc = SimpleNamespace(k=2)", "x * c.k", "c.k = 3", "c.k = 2")
row("class attribute that an instance shadows", C + "c = C()", "x * c.k", "c.k = 3", "del c.k")
row("class attribute that a subclass shadows", C + "class D(C): pass\nc = D()", "x * c.k", "D.k = 3", "C.k = 9")
row("class attribute of a base", C + "class D(C): pass\nc = D()", "x * c.k", "C.k = 3")
row(
    "mode that is a class default",
    "class N:\n    training = True\nn = N()",
    "x * 2 if n.training else x",
    "n.training = False",
)
refused(
    "attribute that the function changes in each call", C + "c = C()", "def f(x):\n    c.k += 1\n    return x * c.k"
)
row("attribute that the function creates once", C + "c = C()", "def f(x):\n    c.k = 7\n    return x * c.k", "c.k = 8")
row("hasattr", "class C: pass\nc = C()", "x * 2 if hasattr(c, 'k') else x", "c.k = 1", "del c.k")
row("getattr with a default", "class C: pass\nc = C()", "x * getattr(c, 'k', 5)", "c.k = 2", "C.k = 3", "del c.k")
row(
    "getattr with a computed name",
    "class C: pass\nc = C()\nc.k0, c.k1 = 2, 3",
    "x * sum(getattr(c, f'k{i}') for i in range(2))",
    "c.k1 = 9",
)
row(
    "a name from a list", C + "c = C()\nnames = ['k']", "x * getattr(c, names[0])", "c.k = 3", "c.j = 9; names[0] = 'j'"
)
row("vars", "class C: pass\nc = C()\nc.a = 2", "x * sum(vars(c).values())", "c.b = 5", "c.a = 1")
row("dict of an object", "class C: pass\nc = C()\nc.a = 2", "x * len(c.__dict__)", "c.b = 5")
row(
    "a mixin that is added",
    "class M:\n    def k(self): return 5\nclass B:\n    def k(self): return 2\nclass C(B): pass\nc = C()",
    "x * c.k()",
    "C.__bases__ = (M, B)",
)
row("a method that an instance shadows", "class C:\n    def k(self): return 2\nc = C()", "x * c.k()", "c.k = lambda: 3")
row("a method that is replaced", "class C:\n    def k(self): return 2\nc = C()", "x * c.k()", "C.k = lambda self: 3")
row(
    "a method of a base that a class shadows",
    "class B:\n    def k(self): return 2\nclass C(B): pass\nc = C()",
    "x * c.k()",
    "C.k = lambda self: 3",
)
row("another class", "class A:\n    k = 2\nclass B:\n    k = 3\nc = A()", "x * c.k", "c.__class__ = B")
row("slots", "class C:\n    __slots__ = ('k',)\nc = C()\nc.k = 2", "x * c.k", "c.k = 3")
row("slots that are empty", "class C:\n    __slots__ = ('k',)\nc = C()", "x * getattr(c, 'k', 4)", "c.k = 3", "del c.k")
row(
    "private slots",
    "class C:\n    __slots__ = ('__k',)\n    def set(self, k): self.__k = k\n    def get(self): return self.__k\nc = C()\nc.set(2)",
    "x * c.get()",
    "c.set(3)",
)
row("property", "class C:\n    @property\n    def k(self): return self.j * 2\nc = C()\nc.j = 1", "x * c.k", "c.j = 3")
row(
    "property that is replaced",
    "class C:\n    @property\n    def k(self): return 2\nc = C()",
    "x * c.k",
    "C.k = property(lambda self: 7)",
)
row(
    "descriptor",
    "class D:\n    def __init__(self): self.v = 2\n    def __get__(self, o, t): return self.v\nclass C:\n    k = D()\nc = C()",
    "x * c.k",
    "C.__dict__['k'].v = 3",
)
row(
    "__getattr__",
    "class C:\n    def __init__(self): self.d = {'k': 2}\n    def __getattr__(self, n): return self.d[n]\nc = C()",
    "x * c.k",
    "c.d['k'] = 3",
    "c.k = 9",
)
row(
    "__getattribute__",
    "class C:\n    def __init__(self): self.k = 2\n    def __getattribute__(self, n): return object.__getattribute__(self, n)\nc = C()",
    "x * c.k",
    "c.k = 3",
)
row(
    "__call__ that is replaced",
    "class C:\n    def __call__(self, x): return x * 2\nc = C()",
    "c(x)",
    "C.__call__ = lambda self, x: x * 3",
)
row(
    "operators of a class",
    "class C:\n    def __init__(self): self.v = 2\n    def __mul__(self, o): return self.v * o\nc = C()",
    "x * (c * 3)",
    "c.v = 5",
    "C.__mul__ = lambda self, o: 1",
)
row(
    "__len__ and __bool__",
    "class C:\n    n = 0\n    def __len__(self): return self.n\nc = C()",
    "x * 2 if c else x",
    "c.n = 1",
)
row("__index__", "class C:\n    n = 1\n    def __index__(self): return self.n\nc = C()", "x[c]", "c.n = 0")
row("metaclass attribute", "class M(type):\n    k = 2\nclass C(metaclass=M): pass", "x * C.k", "M.k = 3", "C.k = 4")
row("class method", "class C:\n    k = 2\n    @classmethod\n    def get(cls): return cls.k", "x * C.get()", "C.k = 3")
row(
    "static method",
    "class C:\n    @staticmethod\n    def get(): return 2",
    "x * C.get()",
    "C.get = staticmethod(lambda: 3)",
)
row("class made inside", "K = 2\nclass C:\n    def __init__(self): self.k = K", "x * C().k", "K = 3")
row(
    "dataclass made inside",
    "from dataclasses import dataclass, field\nK = 2\n@dataclass\nclass C:\n    a: int = 1\n    def __post_init__(self): self.a *= K",
    "x * C().a",
    "K = 3",
)
row("a new attribute of a class", "class C: pass\nc = C()", "x * getattr(c, 'k', 1)", "C.k = 6")
row("inner class", "class C:\n    class D:\n        k = 2", "x * C.D.k", "C.D.k = 3")
row("two instances in a list", C + "cs = [C(), C()]", "x * sum(c.k for c in cs)", "cs[1].k = 5")
row(
    "nested objects",
    "class C: pass\na = C(); a.b = C(); a.b.c = C(); a.b.c.k = 2",
    "x * a.b.c.k",
    "a.b.c.k = 3",
    "a.b = a.b.c; a.b.c = a.b",
)
row("circle of objects", "class C: pass\na = C(); a.me = a; a.k = 2", "x * a.me.me.k", "a.k = 3")
row("enum", "import enum\nclass E(enum.Enum):\n    A = 2\n    B = 3\ne = E.A", "x * e.value", "e = E.B")
row("attribute of an enum member", "import enum\nclass E(enum.Enum):\n    A = 2\nE.A.k = 5", "x * E.A.k", "E.A.k = 6")
row("flags", "import enum\nclass F(enum.IntFlag):\n    A = 1\n    B = 2\nm = F.A", "x * int(m)", "m = F.A | F.B")
row(
    "dataclass",
    "from dataclasses import dataclass\n@dataclass\nclass C:\n    k: int = 2\nc = C()",
    "x * c.k",
    "c.k = 3",
)
row(
    "asdict",
    "from dataclasses import dataclass, asdict\n@dataclass\nclass C:\n    k: int = 2\n    j: int = 1\nc = C()",
    "x * sum(asdict(c).values())",
    "c.j = 5",
)
row(
    "fields of a dataclass",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 2\n    b: int = 1\nc = C()",
    "x * sum(getattr(c, f.name) for f in dataclasses.fields(c))",
    "c.b = 5",
)
row(
    "frozen dataclass replaced",
    "from dataclasses import dataclass, replace\n@dataclass(frozen=True)\nclass C:\n    k: int = 2\nc = C()",
    "x * c.k",
    "c = replace(c, k=3)",
)
row(
    "match on an object",
    "class P:\n    __match_args__ = ('a', 'b')\np = P(); p.a, p.b = 2, 3",
    "def f(x):\n    match p:\n        case P(a, b):\n            return x * a + b",
    "p.b = 9",
)
row("exception with arguments", "e = ValueError(2)", "x * e.args[0]", "e.args = (3,)")
row("subclass of float", "class F(float): pass\nv = F(2.0); v.k = 3", "x * v.k * v", "v.k = 4", "v = F(5.0); v.k = 1")
row(
    "subclass of dict with attributes",
    "class D(dict): pass\nd = D(a=2); d.k = 3",
    "x * d['a'] * d.k",
    "d.k = 4",
    "d['a'] = 5",
)
row(
    "subclass of list with attributes",
    "class L(list): pass\nl = L([2]); l.k = 3",
    "x * l[0] * l.k",
    "l.k = 4",
    "l.append(1); l[0] = 7",
)
row(
    "dictionary class with its own iterator",
    "class D(dict):\n    def __iter__(self): return iter(sorted(dict.keys(self), reverse=self.r))\n    r = False\nd = D(a=2, b=3)",
    "x * d[next(iter(d))]",
    "d.r = True",
    "d['b'] = 8",
)
row(
    "delegation",
    "class I: pass\nclass O:\n    def __init__(self, i): self._i = i\n    def __getattr__(self, n): return getattr(self._i, n)\ni = I(); i.k = 2\no = O(i)",
    "x * o.k",
    "i.k = 3",
)
row("copy of an object", "import copy\nclass C: pass\nc = C(); c.k = 2", "x * copy.copy(c).k", "c.k = 3")
refused(
    "weak reference",
    "import weakref\nclass C: pass\nc = C(); c.k = 2\nr = weakref.ref(c)",
    "x * r().k",
    "c.k = 3",
    "d = C(); d.k = 4; r = weakref.ref(d)",
)
refused(
    "weak reference that dies",
    "import weakref\nclass C: pass\nc = C()\nr = weakref.ref(c)",
    "x if r() is None else x * 2",
    "del c; import gc; gc.collect()",
)
refused(
    "weak dictionary",
    "import weakref\nclass C: pass\nc = C(); c.k = 2\nd = weakref.WeakValueDictionary(a=c)",
    "x * d['a'].k",
    "c.k = 3",
)
refused("proxy", "import weakref\nclass C: pass\nc = C(); c.k = 2\np = weakref.proxy(c)", "x * p.k", "c.k = 3")

# ---- containers

row("deque", "from collections import deque\nd = deque([1, 2])", "x * sum(d)", "d.append(3)", "d.rotate(1)", "d[0] = 9")
row("deque of which the first counts", "from collections import deque\nd = deque([1, 2])", "x * d[0]", "d.rotate(1)")
row("list", "l = [1, 2]", "x * sum(l)", "l[0] = 5", "l.append(1)", "l.reverse()")
row("order of a list", "l = [1, 2]", "x * l[0]", "l.reverse()", "l.sort()")
row("nested lists", "l = [[1], [[2]]]", "x * l[1][0][0]", "l[1][0][0] = 3")
row("dictionary", "d = {'a': 1}", "x * d['a']", "d['a'] = 2", "d = {'a': 3}")
row("order of a dictionary", "d = {'a': 2, 'b': 3}", "x * next(iter(d.values()))", "d['a'] = d.pop('a')")
row("keys of a dictionary", "d = {2: 'a'}", "x * max(d)", "d[5] = 'b'", "del d[5]")
row("equal keys that differ", "d = {1: 0}", "x * 2 if type(next(iter(d))) is bool else x", "del d[1]; d[True] = 0")
row("get with a default", "d = {}", "x * d.get('k', 5)", "d['k'] = 2", "del d['k']")
row("in a dictionary", "d = {}", "x * 2 if 'k' in d else x", "d['k'] = None")
row("set", "s = {1}", "x * 2 if 2 in s else x", "s.add(2)", "s.discard(2)")
row("length of a set", "s = {1}", "x * len(s)", "s |= {5, 6}")
row("frozen set", "s = frozenset({1})", "x * len(s)", "s = frozenset({1, 2})")
row("objects in a set", C + "c = C()\ns = {c}", "x * sum(c.k for c in s)", "c.k = 4")
row(
    "ordered dictionary",
    "from collections import OrderedDict\nd = OrderedDict(a=2, b=3)",
    "x * next(iter(d.values()))",
    "d.move_to_end('a')",
    "d['b'] = 7",
)
row(
    "default dictionary",
    "from collections import defaultdict\nd = defaultdict(lambda: 4)",
    "x * d['k']",
    "d['k'] = 2",
    "del d['k']; d.default_factory = lambda: 6",
)
row("counter", "from collections import Counter\nd = Counter('aab')", "x * d['a']", "d.update('aa')")
row(
    "chain of dictionaries",
    "from collections import ChainMap\na, b = {}, {'k': 2}\nd = ChainMap(a, b)",
    "x * d['k']",
    "b['k'] = 3",
    "a['k'] = 4",
)
row("UserDict", "from collections import UserDict\nd = UserDict(k=2)", "x * d['k']", "d['k'] = 3")
row("UserList", "from collections import UserList\nl = UserList([2])", "x * l[0]", "l[0] = 3")
row(
    "mapping proxy",
    "from types import MappingProxyType\nd = {'k': 2}\np = MappingProxyType(d)",
    "x * p['k']",
    "d['k'] = 3",
)
row(
    "named tuple",
    "from collections import namedtuple\nT = namedtuple('T', 'a b')\nt = T(2, [3])",
    "x * t.a * t.b[0]",
    "t.b[0] = 4",
    "t = t._replace(a=5)",
)
row("array", "from array import array\na = array('f', [1, 2])", "x * a[0]", "a[0] = 5", "a.append(3); a[0] = 6")
row("bytearray", "b = bytearray(b'ab')", "x * b[0]", "b[0] = 1", "b += b'c'")
row("memoryview", "b = bytearray(b'ab')\nm = memoryview(b)", "x * m[0]", "b[0] = 1")
row("heap", "import heapq\nh = [3, 4]", "x * h[0]", "heapq.heappush(h, 1)")
row("view of a dictionary", "d = {'a': 2}\nv = d.values()", "x * sum(v)", "d['a'] = 3", "d['b'] = 1")
row("tuple with a list", "t = (1, [2])", "x * t[1][0]", "t[1][0] = 3")
row("long list of numbers", "l = list(range(3000))", "x * l[2999]", "l[2999] = 1", "l[1500] = 7")
row("None in a list", "l = [None]", "x if l[0] is None else x * l[0]", "l[0] = 3")
row("0.0 and -0.0", "z = 0.0", "x * 0 + (1 / Tensor(z))", "z = -0.0")
row("True and 1", "v = True", "x * 2 if v is True else x", "v = 1", "v = 1.0")
row("nan", "v = float('nan')", "x * v", "v = 1.0")
row("complex", "v = 2 + 0j", "x * v.real * (2 if str(v.imag)[0] == '-' else 1)", "v = complex(2, -0.0)")
row("string", "s = 'a'", "x * len(s)", "s = 'ab'")
row("range and slice", "r = range(2)\ns = slice(0, 1)", "x[s] * len(r)", "r = range(3)", "s = slice(0, 2)")
row(
    "configparser",
    "import configparser\nc = configparser.ConfigParser()\nc.read_dict({'a': {'k': '2'}})",
    "x * c.getint('a', 'k')",
    "c['a']['k'] = '3'",
)
row("Fraction", "from fractions import Fraction\nv = Fraction(1, 2)", "x * float(v)", "v = Fraction(1, 3)")
row("Decimal", "from decimal import Decimal\nv = Decimal('0.5')", "x * float(v)", "v = Decimal('0.25')")
row(
    "context of decimal",
    "import decimal\nfrom decimal import Decimal",
    "x * float(Decimal(1) / Decimal(3))",
    "decimal.getcontext().prec = 3",
    "decimal.getcontext().prec = 28",
)
row("date", "import datetime\nd = datetime.date(2020, 1, 2)", "x * d.day", "d = datetime.date(2020, 1, 5)")
row("path", "from pathlib import PurePath\np = PurePath('a/b')", "x * len(p.name)", "p = PurePath('a/bcd')")
row("regular expression", "import re\np = re.compile('a+')", "x * len(p.match('aab').group())", "p = re.compile('a+b')")
row("template", "import string\nt = string.Template('$a')", "x * len(t.template)", "t.template = 'abc'")
row(
    "itemgetter",
    "from operator import itemgetter\ng = itemgetter(0)\nl = [2, 3]",
    "x * g(l)",
    "g = itemgetter(1)",
    "l[1] = 5",
)
row(
    "attrgetter",
    "from operator import attrgetter\nclass C: pass\nc = C(); c.d = C(); c.d.k = 2\ng = attrgetter('d.k')",
    "x * g(c)",
    "c.d.k = 3",
)
row("ctypes", "import ctypes\nv = ctypes.c_int(2)", "x * v.value", "v.value = 3")
row(
    "structure of ctypes",
    "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('k', ctypes.c_int)]\ns = S(2)",
    "x * s.k",
    "s.k = 3",
)
row("shared value", "import multiprocessing as mp\nv = mp.Value('i', 2)", "x * v.value", "v.value = 3")
row("event", "import threading\ne = threading.Event()", "x * 2 if e.is_set() else x", "e.set()", "e.clear()")
row("queue", "import queue\nq = queue.Queue()", "x * (1 + q.qsize())", "q.put(1)")
row("thread's own", "import threading\nl = threading.local()\nl.k = 2", "x * l.k", "l.k = 3")
row(
    "context variable",
    "from contextvars import ContextVar\nv = ContextVar('v', default=2)",
    "x * v.get()",
    "v.set(3)",
    "v.set(2)",
)
row(
    "context variable of a list",
    "from contextvars import ContextVar\nv = ContextVar('v')\nv.set([2])",
    "x * v.get()[0]",
    "v.get()[0] = 3",
)
row(
    "level of a logger",
    "import logging\nlog = logging.getLogger('hostile')\nlog.setLevel(30)",
    "x * 2 if log.isEnabledFor(10) else x",
    "log.setLevel(10)",
)
row(
    "environment",
    "import os\nos.environ['HOSTILE'] = '2'",
    "x * int(os.environ['HOSTILE'])",
    "os.environ['HOSTILE'] = '3'",
)
row("getenv", "import os\nos.environ['HOSTILE'] = '2'", "x * int(os.getenv('HOSTILE'))", "os.environ['HOSTILE'] = '3'")
row(
    "getenv by itself",
    "from os import getenv, environ\nenviron['HOSTILE'] = '2'",
    "x * int(getenv('HOSTILE', 5))",
    "del environ['HOSTILE']",
)
row(
    "arguments of the process",
    "import sys\nsys.argv.append('ab')",
    "x * len(sys.argv[-1])",
    "sys.argv[-1] = 'abc'",
    "sys.argv.pop()",
)

# ---- functions

row("default", "def h(x, k=2): return x * k", "h(x)", "h.__defaults__ = (3,)")
row(
    "keyword default",
    "def h(x, *, k=2): return x * k",
    "h(x)",
    "h.__kwdefaults__['k'] = 3",
    "h.__kwdefaults__ = {'k': 4}",
)
row("mutable default", "def h(x, k=[2]): return x * k[0]", "h(x)", "h.__defaults__[0][0] = 3")
row("function attribute", "def h(x): return x * h.k\nh.k = 2", "h(x)", "h.k = 3")
row("function attribute that is missing", "def h(x): return x * getattr(h, 'k', 5)", "h(x)", "h.k = 3")
row("own attribute", "", "def f(x):\n    return x * getattr(f, 'k', 2)", "f.k = 3")
row("code of a function", "def h(x): return x * 2\ndef g(x): return x * 3", "h(x)", "h.__code__ = g.__code__")
row("global that appears", "", "x * K if 'K' in globals() else x", "K = 3", "del K")
row("globals", "K = 2", "x * globals()['K']", "K = 3")
row("builtin that is shadowed", "", "x * len([1, 2])", "len = lambda _: 5", "del len")
row(
    "partial",
    "from functools import partial\ndef h(k, x): return x * k\ng = partial(h, 2)",
    "g(x)",
    "g = partial(h, 3)",
)
row(
    "keywords of a partial",
    "from functools import partial\ndef h(x, k): return x * k\ng = partial(h, k=2)",
    "g(x)",
    "g.keywords['k'] = 3",
)
row(
    "closure",
    "def make():\n    k = 2\n    def get(): return k\n    def set(v):\n        nonlocal k\n        k = v\n    return get, set\nget, set_ = make()",
    "x * get()",
    "set_(3)",
)
row("list of functions", "fs = [lambda x: x * 2]", "fs[0](x)", "fs[0] = lambda x: x * 3", "fs.append(None)")
row(
    "registry",
    "R = {}\ndef register(f):\n    R[f.__name__] = f\n    return f\n@register\ndef a(x): return x * K\nK = 2",
    "R['a'](x)",
    "K = 3",
)
row(
    "decorator",
    "import functools\nK = 2\ndef d(f):\n    @functools.wraps(f)\n    def g(x): return f(x) * K\n    return g\n@d\ndef h(x): return x",
    "h(x)",
    "K = 3",
)
row(
    "single dispatch",
    "from functools import singledispatch\n@singledispatch\ndef h(v, x): return x\n@h.register\ndef _(v: int, x): return x * 2",
    "h(1, x)",
    "h.register(int, lambda v, x: x * 3)",
)
row(
    "cached helper of a number",
    "from functools import lru_cache\nS = {'k': 2}\n@lru_cache\ndef h(): return S['k']",
    "x * h()",
    "S['k'] = 3",
    "h.cache_clear()",
)
row(
    "cached helper without limit",
    "from functools import cache\nS = {'k': 2}\n@cache\ndef h(n): return S['k'] * n",
    "x * h(2)",
    "S['k'] = 3; h.cache_clear()",
    "h(7)",
)
row(
    "cached helper that is refilled",
    "from functools import lru_cache\nS = [2]\n@lru_cache\ndef h(): return S[0] * 1000",
    "x * h()",
    "S[0] = 3; h.cache_clear(); h()",
    "S[0] = 2",
    "h.cache_clear()",
)
row(
    "cached property",
    "from functools import cached_property\nclass C:\n    j = 2\n    @cached_property\n    def k(self): return self.j\nc = C()",
    "x * c.k",
    "c.j = 3",
    "del c.k",
)
row(
    "property of a partial method",
    "from functools import partialmethod\nclass C:\n    def s(self, x, k): return x * k\n    two = partialmethod(s, k=2)\nc = C()",
    "c.two(x)",
    "C.two = partialmethod(C.s, k=3)",
)
row("lambda in an attribute", "class C: pass\nc = C(); c.act = lambda x: x * 2", "c.act(x)", "c.act = lambda x: x * 3")
row("bound method", "class C:\n    k = 2\n    def m(self, x): return x * self.k\nc = C()\nm = c.m", "m(x)", "c.k = 3")
row("bound method of a list", "l = [2, 3]\np = l.__getitem__", "x * p(0)", "l[0] = 5")
row("generator inside", "K = [1, 2]", "x * sum(k for k in K)", "K[0] = 9")
row("comprehension", "K = 2", "x * sum([K * i for i in range(3)])", "K = 3")
row("recursion", "D = 2\ndef h(x, n): return x if n == 0 else h(x * 2, n - 1)", "h(x, D)", "D = 3")
row(
    "import inside",
    "import sys, types\nm = types.ModuleType('hostile_inside')\nm.k = 2\nsys.modules['hostile_inside'] = m",
    "def f(x):\n    import hostile_inside\n    return x * hostile_inside.k",
    "m.k = 3",
)
row(
    "from import inside",
    "import sys, types\nm = types.ModuleType('hostile_from')\nm.k = 2\nsys.modules['hostile_from'] = m",
    "def f(x):\n    from hostile_from import k\n    return x * k",
    "m.k = 3",
)
row("module", "import types\nm = types.ModuleType('hostile_module')\nm.k = 2", "x * m.k", "m.k = 3")
row(
    "attribute of a module that appears",
    "import types\nm = types.ModuleType('hostile_appears')",
    "x * getattr(m, 'k', 5)",
    "m.k = 3",
)
row(
    "module by name",
    "import importlib, sys, types\nm = types.ModuleType('hostile_named')\nm.k = 2\nsys.modules['hostile_named'] = m",
    "x * importlib.import_module('hostile_named').k",
    "m.k = 3",
)
row(
    "module in sys.modules",
    "import sys, types\nm = types.ModuleType('hostile_sys')\nm.k = 2\nsys.modules['hostile_sys'] = m",
    "x * sys.modules['hostile_sys'].k",
    "m.k = 3",
)
row("constant of a library", "import math", "x * math.pi", "math.pi = 3.0", "math.pi = 3.141592653589793")
refused("eval", "K = 2", "x * eval('K')", "K = 3")
row(
    "super",
    "class A:\n    k = 2\n    def m(self): return self.k\nclass B(A):\n    def m(self): return super().m() + 1\nb = B()",
    "x * b.m()",
    "A.k = 5",
    "A.m = lambda self: 0",
)
row(
    "context manager",
    "from contextlib import contextmanager\nS = [2]\n@contextmanager\ndef h():\n    S[0] += 1\n    yield S[0]\n    S[0] -= 1",
    "def f(x):\n    with h() as k:\n        return x * k",
    "S[0] = 5",
)
row(
    "try and except",
    "d = {}",
    "def f(x):\n    try:\n        return x * d['k']\n    except KeyError:\n        return x",
    "d['k'] = 3",
)
row("identity", "a = object()\nb = a", "x * 2 if a is b else x", "b = object()")
row("type of an object", "v = 1", "x * 2 if isinstance(v, int) else x", "v = '1'")
row(
    "abstract base class",
    "import abc\nclass A(abc.ABC): pass\nclass C: pass\nc = C()",
    "x * 2 if isinstance(c, A) else x",
    "A.register(C)",
)

# ---- tensors

row(
    "requires_grad",
    "w = Tensor([1.0, 2.0])",
    "x * 2 if w.requires_grad else x * w",
    "w.requires_grad = True",
    "w.requires_grad = False",
)
row(
    "grad is None",
    "w = Tensor([1.0, 2.0], requires_grad=True)",
    "x if w.grad is None else x * w.grad",
    "(w * 2).sum().backward()",
    "w.grad = None",
)
row("shape of a tensor", "w = Tensor([1.0, 2.0])", "x * w.shape[0]", "w = Tensor([1.0])")
row("dtype of a tensor", "w = Tensor([1.0, 2.0])", "x * 2 if w.dtype.name == 'int32' else x", "w = Tensor([1, 2])")
row("identity of tensors", "w = Tensor([1.0])\nv = w", "x * 2 if w is v else x * w", "v = Tensor([1.0])")
row(
    "tensor in a tuple in an attribute",
    "class C: pass\nc = C(); c.t = (Tensor([1.0]), 2)",
    "x * c.t[0] * c.t[1]",
    "c.t = (Tensor([3.0]), 2)",
)
row(
    "tensor behind a computed name",
    "class C: pass\nc = C(); c.w0 = Tensor([2.0])",
    "x * getattr(c, 'w' + str(0))",
    "c.w0 = Tensor([3.0])",
)
row(
    "tensor in a deque",
    "from collections import deque\nd = deque([Tensor([2.0])])",
    "x * d[0]",
    "d[0] = Tensor([3.0])",
    "d.appendleft(Tensor([4.0]))",
)
row(
    "tensor in a namespace",
    "from types import SimpleNamespace\nc = SimpleNamespace(w=Tensor([2.0]))",
    "x * c.w",
    "c.w = Tensor([3.0])",
    "c.w.assign([4.0])",
)
row("tensor as a default", "def h(x, w=Tensor([2.0])): return x * w", "h(x)", "h.__defaults__ = (Tensor([3.0]),)")
refused(
    "tensor in a weak dictionary",
    "import weakref\nw = Tensor([2.0])\nd = weakref.WeakValueDictionary(w=w)",
    "x * d['w']",
    "w.assign([3.0])",
    "w = Tensor([5.0]); d['w'] = w",
)
row(
    "module that is frozen",
    "l = nn.Linear(2, 2)\nl.weight.assign(Tensor.ones(2, 2)); l.bias.assign(Tensor.zeros(2))",
    "l(x)",
    "l.bias = None",
    "l.weight = Tensor.zeros(2, 2)",
)
row(
    "dropout rate",
    "d = nn.Dropout(0.0) if hasattr(nn, 'Dropout') else None\nk = 2",
    "x * k if d is None else d(x) * k",
    "k = 3",
)
row("training mode", "", "x * 2 if Tensor.training else x", "Tensor.training = True", "Tensor.training = False")
row(
    "number of parameters",
    "l = [nn.Linear(2, 2)]",
    "x * len(nn.state.get_parameters(l))",
    "l.append(nn.Linear(2, 2, bias=False))",
    "l[0].bias = None",
)

# ---- NumPy and others

row("NumPy scalar", "import numpy as np\nk = np.float32(2)", "x * float(k)", "k = np.float32(3)")
row("NumPy array", "import numpy as np\na = np.array([2.0, 3.0])", "x * float(a[0])", "a[0] = 5.0")
row(
    "NumPy array that is transposed in place",
    "import numpy as np\na = np.arange(6).reshape(2, 3)",
    "x * int(a.shape[0])",
    "a.shape = (3, 2)",
)
row("view of a NumPy array", "import numpy as np\na = np.arange(4.0)\nv = a[1:]", "x * float(v[0])", "a[1] = 7")
row("0-dimensional NumPy array", "import numpy as np\na = np.array(2.0)", "x * float(a)", "a[...] = 3")
row("NumPy array of objects", "import numpy as np\na = np.array([1, 'a'], dtype=object)", "x * a[0]", "a[0] = 2")
row("NumPy array of strings", "import numpy as np\na = np.array(['ab', 'c'])", "x * len(a[0])", "a[0] = 'c'")
row(
    "structured NumPy array",
    "import numpy as np\na = np.zeros(2, dtype=[('k', 'f4'), ('n', 'i4')])",
    "x * float(a['k'][0])",
    "a['k'][0] = 3",
)
row(
    "masked NumPy array",
    "import numpy as np\na = np.ma.array([1.0, 2.0], mask=[0, 0])",
    "x * float(a.sum())",
    "a.mask = [0, 1]",
    "a[0] = 5",
)
row(
    "NumPy array in a dictionary",
    "import numpy as np\nd = {'a': np.ones(3)}",
    "x * float(d['a'].sum())",
    "d['a'][1] = 4",
    "d['a'] = np.zeros(2)",
)
row(
    "NumPy dates",
    "import numpy as np\na = np.array(['2020-01-01'], dtype='M8[D]')",
    "x * int(a.astype(int)[0])",
    "a[0] = np.datetime64('2020-01-03')",
)
row("NumPy function", "import numpy as np\nK = 2.0", "x * float(np.sqrt(K))", "K = 3.0")
row("NumPy iterates a list", "import numpy as np\nl = [1.0, 2.0]", "x * float(np.mean(l))", "l[0] = 5.0")
row(
    "array that wraps a buffer",
    "import numpy as np\nb = bytearray(8)\na = np.frombuffer(b, dtype=np.uint8)",
    "x * int(a[0])",
    "b[0] = 3",
)
row("random number with a seed", "import random\nS = 3", "x * random.Random(S).random()", "S = 4")
row("NumPy generator with a seed", "import numpy as np\nS = 3", "x * float(np.random.default_rng(S).random())", "S = 4")

# ---- what is refused

refused("counter in a global", "n = 0", "def f(x):\n    global n\n    n += 1\n    return x * n", "pass")
refused("time", "import time", "x * (time.time() % 100)")
refused("clock", "from time import perf_counter", "x * perf_counter()")
refused("now", "import datetime", "x * datetime.datetime.now().microsecond")
refused("today", "from datetime import date", "x * date.today().day")
refused("unique number", "import uuid", "x * (uuid.uuid4().int % 7)")
refused("secrets", "import secrets", "x * secrets.randbelow(1000)")
refused("random bytes", "import os", "x * os.urandom(1)[0]")
refused(
    "size of a file",
    "import os, tempfile\np = tempfile.mktemp()\nopen(p, 'w').close()",
    "x * (1 + os.path.getsize(p))",
    "open(p, 'w').write('abc')",
)
refused(
    "content of a file",
    "import tempfile\np = tempfile.mktemp()\nopen(p, 'w').write('2')",
    "x * int(open(p).read())",
    "open(p, 'w').write('3')",
)
refused(
    "content of a path",
    "import tempfile, pathlib\np = pathlib.Path(tempfile.mktemp())\np.write_text('2')",
    "x * int(p.read_text())",
    "p.write_text('3')",
)
refused(
    "file that is open",
    "import tempfile\nt = tempfile.TemporaryFile('w+')\nt.write('1\\n' * 9)\nt.seek(0)",
    "x * int(t.readline())",
)
refused("text in memory", "import io\nt = io.StringIO('1\\n' * 9)", "x * int(t.readline())")
refused("iterator", "it = iter([1, 2, 3, 4])", "x * next(it)")
refused("generator", "def g():\n    yield from range(9)\nit = g()", "x * next(it)")
refused("count", "import itertools\nit = itertools.count(1)", "x * next(it)")
refused("cycle", "import itertools\nit = itertools.cycle([1, 2])", "x * next(it)")
refused("reader of csv", "import csv\nr = csv.reader(['1', '2', '3'])", "x * int(next(r)[0])")
refused("random number of Python", "import random\nrandom.seed(1)", "x * random.random()")
refused("generator of Python", "import random\nr = random.Random(1)", "x * r.random()", "pass")
refused("random number without a seed", "import random", "x * random.Random().random()")
refused("random number of NumPy", "import numpy as np\nnp.random.seed(1)", "x * np.random.rand()")
refused("generator of NumPy", "import numpy as np\nr = np.random.default_rng(1)", "x * r.random()", "pass")
refused("generator of NumPy without a seed", "import numpy as np", "x * float(np.random.default_rng().random())")
refused("old generator of NumPy", "import numpy as np\nr = np.random.RandomState(1)", "x * r.rand()", "pass")
refused("queue that is emptied", "import queue\nq = queue.Queue()\nfor i in range(9): q.put(i)", "x * q.get()", "pass")
refused("simple queue", "import queue\nq = queue.SimpleQueue()\nfor i in range(9): q.put(i)", "x * q.get()")
refused("list that is emptied", "l = [1, 2, 3, 4, 5, 6]", "x * l.pop()", "pass")
refused(
    "database",
    "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (k)'); c.execute('insert into t values (2)')",
    "x * c.execute('select k from t').fetchone()[0]",
    "c.execute('update t set k = 3')",
)
refused(
    "value that is caught",
    "",
    "def f(x):\n    try:\n        return x * x.sum().item()\n    except Exception:\n        return x",
)
refused(
    "array that is caught",
    "import numpy as np\na = np.ones(2)",
    "def f(x):\n    try:\n        return x + Tensor(a)\n    except Exception:\n        return x",
    "a[0] = 5",
)
refused("large NumPy array", "import numpy as np\na = np.zeros(1 << 20)", "x * float(a[5])", "a[5] = 3")
refused(
    "bare except",
    "",
    "def f(x):\n    try:\n        k = 2 if x.sum() > 0 else 3\n    except:\n        k = 5\n    return x * k",
)

# ---- arguments: `a` is passed beside `x`

G = "def f(x, a):\n    return "
row("argument: object", "class C: pass\na = C(); a.k = 2", G + "x * a.k", "a.k = 3", "a.j = 1", "a = C(); a.k = 5")
row("argument: object with a class default", C + "a = C()", G + "x * a.k", "a.k = 3", "C.k = 4; del a.k")
row(
    "argument: object that equals all others",
    "class C:\n    def __init__(self, k): self.k = k\n    def __eq__(self, o): return True\n    def __hash__(self): return 1\na = C(2)",
    G + "x * a.k",
    "a = C(3)",
    "a.k = 4",
)
row(
    "argument: dataclass with a method",
    "from dataclasses import dataclass\nK = 2\n@dataclass\nclass C:\n    k: int = 1\n    def m(self): return self.k * K\na = C()",
    G + "x * a.m()",
    "K = 3",
    "a.k = 5",
    "C.m = lambda self: 0",
)
row(
    "argument: attribute that is no field",
    "from dataclasses import dataclass\n@dataclass\nclass C:\n    k: int = 1\na = C()",
    G + "x * getattr(a, 'j', 1) * a.k",
    "a.j = 3",
)
row(
    "argument: field that does not compare",
    "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass C:\n    k: int = field(default=1, compare=False)\na = C()",
    G + "x * a.k",
    "a = C(7)",
)
row(
    "argument: dictionary with attributes",
    "class D(dict): pass\na = D(k=2); a.j = 1",
    G + "x * a['k'] * a.j",
    "a.j = 3",
    "a['k'] = 5",
)
row(
    "argument: list with attributes",
    "class L(list):\n    n = 1\na = L([2])",
    G + "x * a[0] * a.n",
    "a.n = 3",
    "L.n = 4; del a.n",
)
row(
    "argument: named tuple with a list",
    "from collections import namedtuple\nT = namedtuple('T', 'k')\na = T([2])",
    G + "x * a.k[0]",
    "a.k[0] = 3",
)
row(
    "argument: named tuple with a method",
    "from typing import NamedTuple\nK = 2\nclass T(NamedTuple):\n    k: int\n    def m(self): return self.k * K\na = T(3)",
    G + "x * a.m()",
    "K = 5",
)
row(
    "argument: member of an enum",
    "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\n    def m(self): return self.value * K\nK = 3\na = E.A",
    G + "x * a.m()",
    "a = E.B",
    "K = 4",
)
row("argument: class", C + "a = C", G + "x * a.k", "C.k = 3", "class D(C): k = 9\na = D")
row("argument: function", "K = 2\ndef a(x): return x * K", G + "a(x)", "K = 3", "a = lambda x: x")
row(
    "argument: partial",
    "from functools import partial\ndef h(x, k): return x * k\na = partial(h, k=2)",
    G + "a(x)",
    "a.keywords['k'] = 3",
    "a = partial(h, k=4)",
)
row(
    "argument: bound method",
    "class C:\n    k = 2\n    def m(self, x): return x * self.k\nc = C()\na = c.m",
    G + "a(x)",
    "c.k = 3",
)
row(
    "argument: fraction",
    "from fractions import Fraction\na = Fraction(1, 2)",
    G + "x * float(a)",
    "a = Fraction(1, 2)",
    "a = Fraction(1, 3)",
)
row(
    "argument: equal decimals",
    "from decimal import Decimal\na = Decimal('1.0')",
    G + "x * len(str(a))",
    "a = Decimal('1.00')",
)
row(
    "argument: date", "import datetime\na = datetime.date(2020, 1, 2)", G + "x * a.day", "a = datetime.date(2020, 1, 4)"
)
row("argument: path", "from pathlib import PurePath\na = PurePath('ab')", G + "x * len(str(a))", "a = PurePath('abc')")
row(
    "argument: equal sets",
    "a = frozenset({1})",
    G + "x * (2 if True in map(lambda v: v is True, a) else 1)",
    "a = frozenset({True})",
)
row("argument: order of a dictionary", "a = {'p': 2, 'q': 3}", G + "x * next(iter(a.values()))", "a = {'q': 3, 'p': 2}")
row("argument: UserDict", "from collections import UserDict\na = UserDict(k=2)", G + "x * a['k']", "a['k'] = 3")
row(
    "argument: NumPy scalar",
    "import numpy as np\na = np.float64(2)",
    G + "x * float(a)",
    "a = np.float64(3)",
    "a = np.float32(3)",
)
row("argument: text with attributes", "class S(str): pass\na = S('ab'); a.k = 2", G + "x * len(a) * a.k", "a.k = 3")
row("argument: nested", "class C: pass\nc = C(); c.k = 2\na = {'l': [(1, c)]}", G + "x * a['l'][0][1].k", "c.k = 3")
row(
    "argument: function under the JIT",
    "from whit import TinyJit\nK = 2\na = TinyJit(lambda x: x * K)",
    G + "a(x)",
    "K = 3",
)
row(
    "argument: settings",
    "from types import MappingProxyType\nd = {'k': 2}\na = MappingProxyType(d)",
    G + "x * a['k']",
    "d['k'] = 3",
)
refused("argument: namespace", "from types import SimpleNamespace\na = SimpleNamespace(k=2)", G + "x * a.k", "a.k = 3")
refused("argument: NumPy array", "import numpy as np\na = np.ones(2)", G + "x * float(a[0])", "a[0] = 3")
refused("argument: iterator", "a = iter(range(9))", G + "x * next(a)")
refused("argument: set", "a = {1}", G + "x * len(a)", "a.add(2)")
refused("argument: deque", "from collections import deque\na = deque([2])", G + "x * a[0]", "a[0] = 3")

# ---- more of Python and of packages

row(
    "two scripts that share a name",
    "import types\nm = types.ModuleType('hostile_a'); n = types.ModuleType('hostile_b')\nm.k, n.k = 2, 3",
    "x * m.k * n.k",
    "n.k = 5",
)
row(
    "attribute of an attribute that is replaced",
    "class C: pass\na = C(); a.b = C(); a.b.k = 2",
    "x * a.b.k",
    "b = C(); b.k = 3; a.b = b",
    "a.b.k = 4",
)
row("attribute that is deleted", C + "c = C(); c.k = 5", "x * c.k", "del c.k")
row("element that is deleted", "d = {'a': 1, 'b': 2}", "x * sum(d.values())", "del d['a']", "d['a'] = 1")
row("list that is replaced by an equal one", "l = [1, 2]", "x * sum(l)", "l = [1, 2]", "l[0] = 7")
row(
    "list of objects of which one is replaced",
    C + "cs = [C()]",
    "x * cs[0].k",
    "c = C(); c.k = 7; cs[0] = c",
    "c.k = 8",
)
row(
    "dictionary of lists of dictionaries",
    "d = {'a': [{'k': 2}]}",
    "x * d['a'][0]['k']",
    "d['a'][0]['k'] = 3",
    "d['a'].append(0)",
)
row("tuple that is replaced", "t = (1, 2)", "x * t[0]", "t = (2, 2)")
row("star arguments", "args = [2, 3]\ndef h(x, *a): return x * sum(a)", "h(x, *args)", "args.append(4)")
row("star keywords", "kw = {'k': 2}\ndef h(x, k=1, j=1): return x * k * j", "h(x, **kw)", "kw['j'] = 4")
row("f-string", "K = 2", "x * len(f'{K:03d}{K}')", "K = 1000")
row(
    "conditional import",
    "import sys, types\nm = types.ModuleType('hostile_cond')\nm.k = 2\nsys.modules['hostile_cond'] = m",
    "def f(x):\n    try:\n        import hostile_cond as h\n        return x * h.k\n    except ImportError:\n        return x",
    "m.k = 3",
    "sys.modules['hostile_cond'] = None",
)
row(
    "late import",
    "import sys, types\nsys.modules.pop('hostile_late', None)",
    "def f(x):\n    try:\n        import hostile_late as h\n        return x * h.k\n    except ImportError:\n        return x",
    "m = types.ModuleType('hostile_late'); m.k = 2; sys.modules['hostile_late'] = m",
    "m.k = 3",
)
row(
    "nonlocal in a class",
    "def make():\n    k = [2]\n    class C:\n        def m(self): return k[0]\n    return C(), k\nc, k = make()",
    "x * c.m()",
    "k[0] = 3",
)
row(
    "class with a counter of instances",
    "class C:\n    n = 0\n    def __init__(self): C.n += 1",
    "x * C.n",
    "C()",
    "C(); C()",
)
row(
    "registry of subclasses",
    "class B:\n    subs = []\n    def __init_subclass__(cls): B.subs.append(cls)",
    "x * (1 + len(B.subs))",
    "class D(B): pass",
)
row("subclasses", "class B: pass", "x * (1 + len(B.__subclasses__()))", "class D(B): pass")
row("doc string", "def h(): 'ab'", "x * len(h.__doc__)", "h.__doc__ = 'abc'")
row("name of a function", "def h(): pass", "x * len(h.__name__)", "h.__name__ = 'hhh'")
row("annotations", "def h(a: 2): pass", "x * h.__annotations__['a']", "h.__annotations__['a'] = 3")
row("annotations of a class", "class C:\n    k: 2", "x * C.__annotations__['k']", "C.__annotations__['k'] = 3")
row("doc of a class", "class C:\n    'ab'", "x * len(C.__doc__)", "C.__doc__ = 'abc'")
row(
    "signature",
    "import inspect\ndef h(a=2): pass",
    "x * inspect.signature(h).parameters['a'].default",
    "h.__defaults__ = (3,)",
)
row("arguments of a generic", "k = list[int]", "x * 2 if k.__args__[0] is int else x", "k = list[str]")
row(
    "string of an object",
    "class C:\n    k = 'ab'\n    def __str__(self): return self.k\nc = C()",
    "x * len(str(c))",
    "c.k = 'abc'",
)
row(
    "representation of an object",
    "class C:\n    k = 'ab'\n    def __repr__(self): return self.k\nc = C()",
    "x * len(repr([c]))",
    "c.k = 'abc'",
)
row(
    "hash of an object", "class C:\n    k = 2\n    def __hash__(self): return self.k\nc = C()", "x * hash(c)", "c.k = 3"
)
row(
    "sorting by a key",
    "class C:\n    def __init__(self, k): self.k = k\ncs = [C(1), C(5)]",
    "x * sorted(cs, key=lambda c: c.k)[0].k",
    "cs[0].k = 9",
)
row(
    "maximum by a comparison",
    "class C:\n    def __init__(self, k): self.k = k\n    def __lt__(self, o): return self.k < o.k\ncs = [C(1), C(5)]",
    "x * max(cs).k",
    "cs[0].k = 9",
)
row(
    "callable object in a dictionary",
    "class A:\n    k = 2\n    def __call__(self, x): return x * self.k\nd = {'relu': A()}",
    "d['relu'](x)",
    "d['relu'].k = 3",
)
row("reduce", "from functools import reduce\nl = [2, 3]", "x * reduce(lambda a, b: a * b, l)", "l[0] = 5")
row("zip and map", "a, b = [1, 2], [3, 4]", "x * sum(p * q for p, q in zip(a, map(lambda v: v + 1, b)))", "b[1] = 9")
row(
    "exit stack",
    "from contextlib import ExitStack, nullcontext\nK = 2",
    "def f(x):\n    with ExitStack() as s:\n        return x * s.enter_context(nullcontext(K))",
    "K = 3",
)
row("json", "import json\ns = '{\"k\": 2}'", "x * json.loads(s)['k']", "s = '{\"k\": 3}'")
row(
    "struct",
    "import struct\nb = bytearray(struct.pack('i', 2))",
    "x * struct.unpack('i', b)[0]",
    "struct.pack_into('i', b, 0, 3)",
)
row("bisect", "import bisect\nl = [1, 3]", "x * bisect.bisect(l, 2)", "l.insert(0, 0)")
row("statistics", "import statistics\nl = [1, 3]", "x * statistics.mean(l)", "l[0] = 5")
row("deep copy", "import copy\nd = {'k': [2]}", "x * copy.deepcopy(d)['k'][0]", "d['k'][0] = 3")
row("pickle", "import pickle\nd = {'k': [2]}", "x * pickle.loads(pickle.dumps(d))['k'][0]", "d['k'][0] = 3")
row("type of a namespace", "import types\nC = types.new_class('C'); C.k = 2", "x * C.k", "C.k = 3")
row("frozen keys", "d = {(1, 2): 2}", "x * d[1, 2]", "d[1, 2] = 3")
row("bytes", "b = b'ab'", "x * b[0]", "b = b'cd'")
row(
    "condition",
    "import threading\nc = threading.Condition()\nK = 2",
    "def f(x):\n    with c:\n        return x * K",
    "K = 3",
)
row("semaphore", "import threading\ns = threading.Semaphore(3)", "x * s._value", "s.acquire()")
row("barrier", "import threading\nb = threading.Barrier(3)", "x * b.parties", "b = threading.Barrier(4)")
row("calendar", "import calendar\nc = calendar.Calendar(0)", "x * (1 + c.firstweekday)", "c.firstweekday = 3")
row(
    "counter of words",
    "from collections import Counter\nc = Counter('aab')",
    "x * c.most_common(1)[0][1]",
    "c['b'] = 9",
)
row(
    "graph",
    "from graphlib import TopologicalSorter\ng = {'a': {'b'}}",
    "x * len(list(TopologicalSorter(g).static_order()))",
    "g['c'] = {'a'}",
)
row("text wrapper", "import textwrap\nw = textwrap.TextWrapper(width=5)", "x * len(w.wrap('ab cd ef'))", "w.width = 2")
row("URL", "from urllib.parse import urlparse\nu = urlparse('http://a:2')", "x * u.port", "u = urlparse('http://a:3')")
row(
    "IP address",
    "import ipaddress\na = ipaddress.ip_address('0.0.0.2')",
    "x * int(a)",
    "a = ipaddress.ip_address('0.0.0.3')",
)
row(
    "duration",
    "import datetime\nd = datetime.timedelta(seconds=2)",
    "x * d.seconds",
    "d = datetime.timedelta(seconds=3)",
)
row(
    "time zone",
    "import datetime\nz = datetime.timezone(datetime.timedelta(hours=2))",
    "x * z.utcoffset(None).seconds",
    "z = datetime.timezone(datetime.timedelta(hours=3))",
)
row("unique identifier", "import uuid\nu = uuid.UUID(int=2)", "x * u.int", "u = uuid.UUID(int=3)")
row(
    "formatter",
    "import logging\nf_ = logging.Formatter('%(name)s')",
    "x * len(f_._fmt)",
    "f_ = logging.Formatter('%(message)s')",
)
row("digest", "import hashlib\nK = b'a'", "x * hashlib.sha256(K).digest()[0]", "K = b'b'")
row("NumPy polynomial", "import numpy as np\np = np.poly1d([2, 1])", "x * float(p(1))", "p = np.poly1d([3, 1])")
row("NumPy matrix", "import numpy as np\nm = np.matrix([[2, 1]])", "x * float(m[0, 0])", "m[0, 0] = 3")
row(
    "NumPy record",
    "import numpy as np\nr = np.rec.array([(2, 3.0)], dtype=[('a', 'i4'), ('b', 'f4')])",
    "x * int(r.a[0])",
    "r.a[0] = 4",
)
row("NumPy dtype", "import numpy as np\nd = np.dtype('f4')", "x * d.itemsize", "d = np.dtype('f8')")
row("NumPy vectorised", "import numpy as np\nK = 2\nh = np.vectorize(lambda v: v * K)", "x * float(h(3))", "K = 4")
row(
    "NumPy iterator over an array",
    "import numpy as np\na = np.arange(3.0)",
    "x * sum(float(v) for v in np.nditer(a))",
    "a[0] = 9",
)
row(
    "NumPy memory map",
    "import numpy as np, tempfile\nm = np.memmap(tempfile.mktemp(), dtype='f4', mode='w+', shape=(2,))",
    "x * float(m[0])",
    "m[0] = 3",
)
row(
    "NumPy error state",
    "import numpy as np\nK = np.float32(2)",
    "def f(x):\n    with np.errstate(all='ignore'):\n        return x * float(K * 2)",
    "K = np.float32(5)",
)
refused("seed sequence of NumPy", "import numpy as np", "x * (int(np.random.SeedSequence().entropy) % 1000)")
refused("process", "import subprocess", "x * int(subprocess.check_output(['echo', '2']))")
refused(
    "list of a folder",
    "import os, tempfile\np = tempfile.mkdtemp()",
    "x * (1 + len(os.listdir(p)))",
    "open(p + '/a', 'w').close()",
)
refused(
    "folder of a path",
    "import pathlib, tempfile\np = pathlib.Path(tempfile.mkdtemp())",
    "x * (1 + len(list(p.iterdir())))",
    "(p / 'a').touch()",
)
refused("number of the process", "import os", "x * os.getpid()")
refused("monotonic clock of a thread", "import time", "x * time.thread_time()")
refused("local time", "import time", "x * time.localtime().tm_year")
refused("context of a closed file", "import io\nb = io.BytesIO(b'abc')", "x * len(b.getvalue())", "b.write(b'abcdef')")
refused(
    "executor",
    "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(1)\nK = 2",
    "x * p.submit(lambda: K).result()",
    "K = 3",
)

# ---- attributes of attributes, and methods of other objects

row(
    "method with an object of another class",
    "class C:\n    def m(self): return self.k\nclass D: pass\nd = D(); d.k = 2\nc = C(); c.k = 1",
    "x * C.m(d) * c.m()",
    "d.k = 3",
    "c.k = 5",
)
row(
    "method in a partial",
    "from functools import partial\nclass C:\n    def m(self): return self.k\nclass D: pass\nd = D(); d.k = 2\nc = C(); c.k = 1\np = partial(C.m, d)",
    "x * p() * c.m()",
    "d.k = 3",
)
row(
    "method in an attribute of another object",
    "class C:\n    def m(self): return self.k\nclass D: pass\nd = D(); d.k = 2; d.f = C.m\nc = C(); c.k = 1",
    "x * d.f(d) * c.m()",
    "d.k = 3",
)
row(
    "object of a subclass made inside",
    "class C:\n    k = 2\n    def m(self): return self.k\nclass D(C): pass",
    "x * D().m()",
    "D.k = 3",
    "C.k = 9",
)
row(
    "method that a constructor calls",
    "K = 2\nclass C:\n    def __init__(self): self.build()\n    def build(self): self.k = K",
    "x * C().k",
    "K = 3",
    "C.build = lambda self: setattr(self, 'k', 7)",
)
row(
    "overridden method that a constructor calls",
    "class C:\n    def __init__(self): self.build()\n    def build(self): self.k = 2\nclass D(C):\n    def build(self): self.k = K\nK = 3",
    "x * D().k",
    "K = 4",
)
row(
    "method of a metaclass",
    "class M(type):\n    def m(cls): return cls.k\nclass C(metaclass=M):\n    k = 2",
    "x * C.m()",
    "C.k = 3",
)
row(
    "property of a property",
    "class A:\n    k = 2\nclass C:\n    def __init__(self): self._a = A()\n    @property\n    def a(self): return self._a\n    def m(self): return self.a.k\nc = C()",
    "x * c.m()",
    "c._a.k = 3",
    "c._a = A()",
)
row(
    "self in a lambda",
    "class C:\n    k = 2\n    def m(self): return (lambda: self.k * 2)()\nc = C()",
    "x * c.m()",
    "c.k = 3",
)
row(
    "self that is another object",
    "class C:\n    def m(self):\n        self = self.other\n        return self.k\nclass D: pass\nd = D(); d.k = 2\nc = C(); c.other = d",
    "x * c.m()",
    "d.k = 3",
)
row(
    "self in a comprehension",
    "class C:\n    k = 2\n    def m(self): return sum(self.k for _ in range(3))\nc = C()",
    "x * c.m()",
    "c.k = 3",
)
row(
    "chain over a dictionary",
    "class C: pass\nc = C(); c.d = {'a': C()}; c.d['a'].k = 2",
    "x * c.d['a'].k",
    "c.d['a'].k = 3",
)
row(
    "chain over slots",
    "class S:\n    __slots__ = ('k', 's')\ns = S(); s.s = S(); s.s.k = 2",
    "x * s.s.k",
    "s.s.k = 3",
    "s.s = S(); s.s.k = 4",
)
row(
    "chain over a method",
    "class C:\n    def get(self): return self.d\nclass D: pass\nc = C(); c.d = D(); c.d.k = 2",
    "x * c.get().k",
    "c.d.k = 3",
)
row(
    "chain over a class",
    "class C:\n    class D:\n        k = 2\n    d = D()\nc = C()",
    "x * c.d.k",
    "c.d.k = 3",
    "C.d = C.D()",
)
row(
    "chain over a module",
    "import types\nm = types.ModuleType('hostile_chain'); m.c = types.SimpleNamespace(k=2)",
    "x * m.c.k",
    "m.c.k = 3",
    "m.c = types.SimpleNamespace(k=4)",
)
row(
    "one of two with the same name",
    C + "class D:\n    k = 5\nc, d = C(), D()",
    "x * (c if len([1]) else d).k",
    "c.k = 3",
    "d.k = 9",
)
row(
    "closure that is bound again",
    "def make():\n    class C: pass\n    c = C(); c.k = 2\n    def get(): return c.k\n    def set(k):\n        nonlocal c\n        c = C(); c.k = k\n    return get, set\nget, set_ = make()",
    "x * get()",
    "set_(3)",
)
row(
    "mixin that reads what another class has",
    "class M:\n    def m(self): return self.k\nclass C(M):\n    def __init__(self): self.k = 2\nc = C()",
    "x * c.m()",
    "c.k = 3",
)
row(
    "method of one object given to another",
    "import types as t\nclass C:\n    def m(self): return self.k\nclass D: pass\nd = D(); d.k = 2\nd.m = t.MethodType(C.m, d)",
    "x * d.m()",
    "d.k = 3",
)
row(
    "method set on a class later",
    "class C:\n    k = 2\nc = C()\ndef m(self): return self.k\nC.m = m",
    "x * c.m()",
    "c.k = 3",
)
row(
    "class method that reads",
    "class C:\n    k = 2\n    @classmethod\n    def m(cls): return cls.j() * cls.k\n    @classmethod\n    def j(cls): return 2\nclass D(C): pass",
    "x * D.m()",
    "D.k = 3",
    "C.j = classmethod(lambda cls: 5)",
)
row(
    "two steps of one name",
    "class O:\n    def __init__(self): self.rate = 2\n    def step(self): return self.rate\nclass T:\n    def __init__(self): self.o, self.step = O(), 0\n    def f(self): return self.o.step()\nt = T()",
    "x * t.f()",
    "t.step = 1",
    "t.o.rate = 3",
    "t.o.step = lambda: 9",
)

# ---- packages that may be installed

row("tensor of PyTorch", "import torch\nt = torch.tensor([2.0])", "x * float(t[0])", "t[0] = 3")
row(
    "parameter of PyTorch",
    "import torch\nm = torch.nn.Linear(1, 1)\nm.weight.data.fill_(2.0)",
    "x * float(m.weight[0, 0])",
    "m.weight.data.fill_(3.0)",
)
row("mode of a module of PyTorch", "import torch\nm = torch.nn.Dropout()", "x * 2 if m.training else x", "m.eval()")
row("expression of SymPy", "import sympy\ns = sympy.Symbol('s')\ne = s + 1", "x * float(e.subs(s, 2))", "e = s + 3")
row(
    "graph of NetworkX",
    "import networkx\ng = networkx.Graph()\ng.add_edge(1, 2, w=2)",
    "x * g[1][2]['w']",
    "g[1][2]['w'] = 3",
    "g.add_edge(2, 3, w=1)",
)
row(
    "sorted list",
    "from sortedcontainers import SortedList\nl = SortedList([2, 3])",
    "x * l[0]",
    "l.add(1)",
    "l.remove(1)",
)
row(
    "template of Jinja",
    "from jinja2 import Template\nt = Template('{{ k }}')\nK = 2",
    "x * int(t.render(k=K))",
    "K = 3",
)
row(
    "small float of ml_dtypes",
    "import ml_dtypes\nk = ml_dtypes.bfloat16(2)",
    "x * float(k)",
    "k = ml_dtypes.bfloat16(3)",
)
refused("random number of PyTorch", "import torch\ntorch.manual_seed(1)", "x * float(torch.rand(1))")
refused("generator of PyTorch", "import torch\ng = torch.Generator()", "x * float(torch.rand(1, generator=g))", "pass")
