"""An example of every public name of Tensor, for docs/reference/tensor.md: `name: expression`. A test runs all of them.

The expressions see the names of `SETUP`. What they give is shown below them on the page.
"""

SETUP = """\
from whit import Context, Tensor, dtypes, nn
x = Tensor([[3.0, 1.0, 2.0], [-1.0, 0.5, 4.0]])
v = Tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
i = Tensor([5, 3, 12])
z = Tensor([1 + 2j, -3, 0.5j])
square = Tensor([[2.0, 1.0], [1.0, 3.0]])
image = Tensor.arange(16).reshape(1, 1, 4, 4).float()
logits, classes = Tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]), Tensor([0, 2])"""

EXAMPLES = """
bool: v.bool()
int: v.int()
short: v.short().dtype
long: v.long().dtype
half: v.half()
float: i.float()
double: v.double().dtype
bfloat16: Tensor([1.001]).bfloat16().float()
cast: v.cast(dtypes.int8)
bitcast: Tensor([1.0]).bitcast("uint32")
custom_function: Tensor.custom_function(lambda a: a * 2, lambda gradient, a: gradient * 2)(v)
astype: v.astype("int8")
type: v.type(dtypes.int8).dtype
type_as: v.type_as(i)
byte: i.byte().dtype
char: i.char().dtype
cpu: x.cpu().device
requires_grad_: v.clone().requires_grad_().requires_grad
dim: x.dim()
nelement: x.nelement()
t: x.t()
mT: image.mT.shape
expand_as: i.expand_as(x)
view_as: v[:4].view_as(square)
reshape_as: x.reshape_as(x.T).shape
expand_dims: v.expand_dims(0).shape
select: x.select(1, 0)
narrow: v.narrow(0, 1, 3)
power: i.power(2)
clamp_min: v.clamp_min(0)
clamp_max: v.clamp_max(0)
greater: i.greater(4)
greater_equal: i.greater_equal(5)
less: i.less(4)
less_equal: i.less_equal(5)
not_equal: i.not_equal(5)
swapdims: x.swapdims(0, 1).shape
flipud: square.flipud()
fliplr: square.fliplr()
inverse: square.inverse()
new_empty: i.new_empty(2, 3).shape
concat: Tensor.concat([i, i], dim=0)
concatenate: Tensor.concatenate([i, i], axis=0)
argwhere: v.argwhere()
multiply: i.multiply(2)
subtract: i.subtract(1)
divide: i.divide(2)
true_divide: i.true_divide(2)
negative: i.negative()
absolute: v.absolute()
arcsin: (v / 2).arcsin()
arccos: (v / 2).arccos()
arctan: v.arctan()
arctan2: v.arctan2(1.0)
amax: x.amax(1)
amin: x.amin(1, keepdims=True)
mm: square.mm(square)
bmm: square.unsqueeze(0).bmm(square.unsqueeze(0))
mv: square.mv(Tensor([1.0, 2.0]))
copy: v.copy()
new_zeros: v.new_zeros(2, 2)
new_ones: i.new_ones(2)
new_full: i.new_full((2,), 7)
new_tensor: i.new_tensor([1, 2])
add_: i.clone().add_(1)
sub_: i.clone().sub_(i, alpha=2)
mul_: i.clone().mul_(2)
div_: v.clone().div_(2)
clamp_: v.clone().clamp_(-1, 1)
copy_: v.clone().copy_(3)
fill_: v.clone().fill_(3)
zero_: v.clone().zero_()
solve: square.solve(Tensor([1.0, 2.0]))
inv: square.inv()
det: square.det()
slogdet: square.slogdet()
cholesky: square.cholesky()
matrix_power: square.matrix_power(3)
qr: square.qr()[1]
svd: square.svd()[1]
eigh: square.eigh()[0]
matrix_rank: square.matrix_rank()
pinv: square.pinv()
lstsq: square.lstsq(Tensor([1.0, 2.0])).solution
real: z.real
imag: z.imag
conj: z.conj()
angle: z.angle()
complex: Tensor.complex(v, v + 1)
polar: Tensor.polar(v.abs(), v)
view_as_real: z.view_as_real()
view_as_complex: z.view_as_real().view_as_complex()
cfloat: i.cfloat()
cdouble: i.cdouble().dtype
fft: v.fft()
ifft: v.fft().ifft()
rfft: v.rfft()
irfft: v.rfft().irfft(5)
fft2: x.fft2()
ifft2: x.fft2().ifft2().real
fftn: x.fftn()
ifftn: x.fftn().ifftn().real
rfft2: x.rfft2().shape
irfft2: x.rfft2().irfft2((2, 3))
rfftn: x.rfftn().shape
irfftn: x.rfftn().irfftn((2, 3))
hfft: z.hfft()
ihfft: v.ihfft()
fftshift: v.fftshift()
ifftshift: v.ifftshift()
fftfreq: Tensor.fftfreq(4)
rfftfreq: Tensor.rfftfreq(4)
dropout: v.dropout(0.5)
bernoulli: Tensor([0.0, 1.0, 1.0]).bernoulli()
multinomial: Tensor([0.0, 0.0, 1.0]).multinomial(2, replacement=True)
randperm: Tensor.randperm(5).sort()[0]
shuffle: i.shuffle().sort()[0]
rand: Tensor.rand(2, 3).shape
randn: Tensor.randn(2, 3).shape
randint: Tensor.randint(100, low=0, high=4).max() < 4
uniform: Tensor.uniform(2, 3, low=-1, high=1).shape
normal: Tensor.normal(2, 3, mean=1, std=0.1).shape
exponential: Tensor.exponential(2, 3, rate=2.0).shape
gumbel: Tensor.gumbel(2, 3).shape
rand_like: x.rand_like().shape
randn_like: x.randn_like().shape
scaled_uniform: Tensor.scaled_uniform(2, 3).shape
glorot_uniform: Tensor.glorot_uniform(2, 3).shape
kaiming_uniform: Tensor.kaiming_uniform(2, 3).shape
kaiming_normal: Tensor.kaiming_normal(2, 3).shape
gradient: v.square().sum().gradient(v)[0]
backward: v.square().sum().backward(), v.grad
contiguous_backward: v.contiguous_backward()
full: Tensor.full((2, 2), 7)
zeros: Tensor.zeros(2, 2)
ones: Tensor.ones(2, 2)
empty: Tensor.empty(2, 2).shape
full_like: i.full_like(1)
zeros_like: i.zeros_like()
ones_like: i.ones_like()
empty_like: i.empty_like().shape
arange: Tensor.arange(2, 8, 2)
linspace: Tensor.linspace(0, 1, 5)
eye: Tensor.eye(2, 3)
cross_entropy: logits.cross_entropy(classes)
sparse_categorical_crossentropy: logits.sparse_categorical_crossentropy(classes)
nll_loss: logits.log_softmax().nll_loss(classes)
binary_crossentropy: Tensor([0.9, 0.2]).binary_crossentropy(Tensor([1.0, 0.0]))
binary_crossentropy_logits: Tensor([2.0, -1.0]).binary_crossentropy_logits(Tensor([1.0, 0.0]))
mse_loss: v.mse_loss(v + 1)
l1_loss: v.l1_loss(v + 2)
huber_loss: v.huber_loss(v + 2)
smooth_l1_loss: v.smooth_l1_loss(v + 2)
kl_div: logits.log_softmax().kl_div(logits.softmax())
sequential: v.sequential([Tensor.relu, lambda a: a * 2])
scaled_dot_product_attention: x.scaled_dot_product_attention(x, x, is_causal=True)
interpolate: image.interpolate((2, 2), mode="linear")
conv2d: image.conv2d(Tensor.ones(1, 1, 3, 3))
conv_transpose2d: image.conv_transpose2d(Tensor.ones(1, 1, 2, 2), stride=2).shape
avg_pool2d: image.avg_pool2d()
max_pool2d: image.max_pool2d()
max_unpool2d: image.max_pool2d().max_unpool2d(Tensor([[[[5, 7], [13, 15]]]]))
einsum: Tensor.einsum("ij,kj->ik", x, x)
tensordot: x.tensordot(x, 2)
inner: v.inner(v)
vdot: v.vdot(v)
outer: i.outer(i)
kron: square.kron(Tensor([1.0, 0.0]))
cross: Tensor([1.0, 0.0, 0.0]).cross(Tensor([0.0, 1.0, 0.0]))
newton_schulz: square.newton_schulz(5, (1.5, -0.5))
dot: x.dot(Tensor([1.0, 0.0, 2.0]))
matmul: square.matmul(x)
linear: x.linear(Tensor.ones(3, 2), Tensor([0.0, 10.0]))
sort: x.sort()
argsort: x.argsort()
topk: x.topk(2)
msort: x.msort()
kthvalue: x.kthvalue(2)
median: x.median()
quantile: v.quantile(0.25)
mode: Tensor([1, 2, 2, 3]).mode()
unique: Tensor([3, 1, 3]).unique()
index_put: i.index_put((Tensor([0, 0]),), Tensor([1, 2]), accumulate=True)
scatter: Tensor.zeros(4).scatter(0, Tensor([3, 1]), Tensor([1.0, 2.0]))
scatter_add: Tensor.zeros(2).scatter_add(0, Tensor([0, 0, 1]), Tensor([1.0, 2.0, 3.0]))
scatter_reduce: Tensor.zeros(2).scatter_reduce(0, Tensor([0, 0, 1]), Tensor([1.0, 2.0, 3.0]), "amax")
index_add: Tensor.zeros(2).index_add(0, Tensor([1, 1]), Tensor([1.0, 2.0]))
bincount: Tensor([0, 2, 2]).bincount()
histogram: v.histogram(2)
gather: x.gather(1, Tensor([[0], [2]]))
take_along_axis: x.take_along_axis(x.argsort(), 1)
take: x.take(Tensor([0, 4]))
index_select: x.index_select(1, Tensor([2, 0]))
masked_fill: v.masked_fill(v < 0, 0)
masked_select: v.masked_select(v > 0)
nonzero: v.nonzero()
searchsorted: v.searchsorted(Tensor([0.1, 3.0]))
diagonal: x.diagonal()
diag: i.diag()
trace: square.trace()
tril: x.tril()
triu: x.triu()
one_hot: Tensor([2, 0]).one_hot(3)
sum: x.sum(), x.sum(1)
prod: x.prod(1)
max: x.max(1)
min: x.min(1)
all: (v > -3).all()
any: (v > 3).any()
allclose: v.allclose(v + 1e-9)
equal: v.equal(v)
count_nonzero: v.count_nonzero()
nansum: Tensor([1.0, float("nan")]).nansum()
nanmean: Tensor([1.0, float("nan")]).nanmean()
mean: x.mean(1)
var: x.var(1)
std: x.std(1)
var_mean: v.var_mean()
std_mean: v.std_mean()
argmax: x.argmax(1)
argmin: x.argmin(1)
softmax: logits.softmax()
softmin: logits.softmin()
log_softmax: logits.log_softmax()
logsumexp: logits.logsumexp(1)
layernorm: x.layernorm()
batchnorm: image.batchnorm(None, None, Tensor([7.5]), Tensor([0.2])).mean()
normalize: x.normalize()
norm: x.norm(), x.norm(1, axis=1)
cumsum: v.cumsum()
cumprod: i.cumprod()
cummax: v.cummax()
cummin: v.cummin()
logcumsumexp: v.logcumsumexp()
ravel: x.ravel()
broadcast_to: i.broadcast_to(2, 3)
swapaxes: x.swapaxes(0, 1).shape
moveaxis: image.moveaxis(0, -1).shape
movedim: image.movedim(0, -1).shape
rot90: square.rot90()
unbind: x.unbind()
rearrange: image.rearrange("b c (h s) w -> b c h s w", s=2).shape
tile: i.tile(2)
repeat_interleave: i.repeat_interleave(2)
roll: v.roll(1)
unfold: v.unfold(0, 3, 1)
meshgrid: Tensor([1, 2]).meshgrid(Tensor([3, 4, 5]))[0]
pad: i.pad((1, 2))
reshape: x.reshape(3, -1)
view: x.view(6)
expand: Tensor([[1], [2]]).expand(2, 3)
permute: image.permute(2, 3, 0, 1).shape
transpose: x.transpose()
T: x.T
flip: x.flip(1)
shrink: x.shrink(((0, 1), (1, 3)))
flatten: image.flatten(1).shape
unflatten: v[:4].unflatten(0, (2, 2))
squeeze: image.squeeze().shape
unsqueeze: v.unsqueeze(0).shape
split: v.split([2, 3])
chunk: v.chunk(2)
repeat: i.repeat(2)
stack: i.stack(i)
cat: i.cat(i)
relu: v.relu()
relu6: (v * 4).relu6()
leaky_relu: v.leaky_relu()
elu: v.elu()
celu: v.celu()
selu: v.selu()
gelu: v.gelu()
quick_gelu: v.quick_gelu()
sigmoid: v.sigmoid()
logsigmoid: v.logsigmoid()
hardsigmoid: v.hardsigmoid()
hardswish: v.hardswish()
hardtanh: v.hardtanh()
silu: v.silu()
swish: v.swish()
mish: v.mish()
softplus: v.softplus()
softsign: v.softsign()
sign: v.sign()
square: v.square()
sqrt: Tensor([4.0, 2.0]).sqrt()
rsqrt: Tensor([4.0, 2.0]).rsqrt()
reciprocal: Tensor([4.0, 0.0]).reciprocal()
exp: v.exp()
exp2: v.exp2()
log: Tensor([1.0, 10.0]).log()
log2: Tensor([1.0, 8.0]).log2()
log10: Tensor([1.0, 1000.0]).log10()
expm1: Tensor([1e-6]).expm1()
log1p: Tensor([1e-6]).log1p()
cbrt: Tensor([-27.0, 8.0]).cbrt()
deg2rad: Tensor([180.0]).deg2rad()
rad2deg: Tensor([3.14159265]).rad2deg()
sin: v.sin()
cos: v.cos()
tan: v.tan()
asin: (v / 2).asin()
acos: (v / 2).acos()
atan: v.atan()
sinh: v.sinh()
cosh: v.cosh()
tanh: v.tanh()
asinh: v.asinh()
acosh: (v + 3).acosh()
atanh: (v / 4).atanh()
erf: v.erf()
sinc: v.sinc()
floor: v.floor()
ceil: v.ceil()
trunc: v.trunc()
round: Tensor([0.5, 1.5, -2.5]).round()
frac: v.frac()
signbit: v.signbit()
positive: v.positive()
isnan: Tensor([1.0, float("nan")]).isnan()
isinf: Tensor([1.0, float("-inf")]).isinf()
isfinite: Tensor([1.0, float("inf")]).isfinite()
nan_to_num: Tensor([float("nan"), float("inf")]).nan_to_num(posinf=9)
atan2: v.atan2(1.0)
hypot: Tensor([3.0]).hypot(4.0)
xlogy: Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 3.0]))
heaviside: v.heaviside(0.5)
logaddexp: Tensor([1000.0]).logaddexp(1000.0)
lt: v.lt(0)
le: v.le(0)
gt: v.gt(0)
ge: v.ge(0)
logical_and: (v > -1).logical_and(v < 1)
logical_or: (v < -1).logical_or(v > 1)
logical_xor: (v < 1).logical_xor(v > -1)
floor_divide: i.floor_divide(-2)
remainder: i.remainder(-2)
assign: i.zeros_like().contiguous().assign(i)
replace: i.zeros_like().replace(i)
add: i.add(1)
sub: i.sub(1)
mul: i.mul(2)
div: i.div(2), i.div(2, rounding_mode="floor")
mod: i.mod(4)
fmod: Tensor([-5]).fmod(3)
pow: i.pow(2)
maximum: i.maximum(4)
minimum: i.minimum(4)
copysign: i.float().copysign(-1.0)
lerp: v.lerp(10.0, 0.5)
clamp: v.clamp(-1, 1)
clip: v.clip(0)
neg: i.neg()
abs: v.abs()
bitwise_and: i.bitwise_and(4)
bitwise_or: i.bitwise_or(2)
bitwise_xor: i.bitwise_xor(1)
lshift: i.lshift(2)
rshift: i.rshift(1)
bitwise_not: i.bitwise_not()
logical_not: v.logical_not()
eq: i.eq(3)
ne: i.ne(3)
isclose: v.isclose(v + 1e-9)
where: (v > 0).where(v, 0)
from_dlpack: Tensor.from_dlpack(v.numpy())
from_blob: Tensor.from_blob(v.numpy().ctypes.data, (5,)).shape
realize: (v + 1).realize()
block_until_ready: (v + 1).block_until_ready()
explain: (v * 2).explain()
kernels: [kernel.name for kernel in (v * 2).kernels()]
numpy: v.numpy()
data: v.data().shape
item: v.sum().item()
tolist: v.tolist()
contiguous: x.T.contiguous()
clone: v.clone()
detach: v.detach()
to: v.to("CPU").device
to_: v.clone().to_("CPU").device
shape: x.shape
ndim: x.ndim
dtype: x.dtype
device: x.device
size: x.size, x.size(), x.size(1)
numel: x.numel()
element_size: x.element_size()
nbytes: x.nbytes()
is_floating_point: x.is_floating_point()
grad: v.grad
requires_grad: v.requires_grad
lgamma: (v + 3).lgamma()
digamma: (v + 3).digamma()
polygamma: (v + 3).polygamma(1)
mvlgamma: (v + 3).mvlgamma(2)
erfc: v.erfc()
erfinv: (v / 4).erfinv()
i0: v.i0()
logit: Tensor([0.1, 0.5, 0.9]).logit()
sgn: v.sgn()
isposinf: Tensor([1.0, float("inf")]).isposinf()
isneginf: Tensor([1.0, float("-inf")]).isneginf()
isreal: z.isreal()
logaddexp2: Tensor([3.0]).logaddexp2(3.0)
float_power: i.float_power(0.5)
fmax: Tensor([float("nan"), 1.0]).fmax(0.5)
fmin: Tensor([float("nan"), 1.0]).fmin(0.5)
nextafter: (Tensor([1.0]).nextafter(2.0) - 1) * 2**23
ldexp: Tensor([0.75]).ldexp(4)
frexp: Tensor([12.0, -0.3]).frexp()
modf: Tensor([1.5, -2.25]).modf()
gcd: i.gcd(6)
lcm: i.lcm(4)
hardshrink: v.hardshrink()
prelu: v.prelu(Tensor([0.25]))
addmm: square.addmm(square, square, beta=2)
addmv: v[:2].addmv(square, v[:2])
addr: square.addr(v[:2], v[:2])
addbmm: square.addbmm(square.unsqueeze(0), square.unsqueeze(0))
baddbmm: square.baddbmm(square.unsqueeze(0), square.unsqueeze(0))
addcmul: v.addcmul(v, v, value=2)
addcdiv: v.addcdiv(v, v + 3)
logdet: square.logdet()
cholesky_inverse: square.cholesky().cholesky_inverse()
cholesky_solve: Tensor([[1.0], [2.0]]).cholesky_solve(square.cholesky())
matrix_exp: (square / 2).matrix_exp()
adjoint: x.adjoint().shape
matrix_transpose: x.matrix_transpose().shape
mH: x.mH.shape
H: x.H.shape
vecdot: x.vecdot(x)
chain_matmul: square.chain_matmul(square, x)
vander: i.vander(3)
block_diag: square.block_diag(Tensor([[7.0]]))
dist: v.dist(v + 1)
cdist: x.cdist(x)
pdist: x.pdist()
renorm: x.renorm(2, 0, 1.0)
cov: x.cov()
corrcoef: x.corrcoef()
stft: v.stft(4, center=False).shape
istft: Tensor.arange(16).float().stft(4).istft(4)[:5]
hann_window: Tensor.hann_window(4)
hamming_window: Tensor.hamming_window(4)
blackman_window: Tensor.blackman_window(4)
bartlett_window: Tensor.bartlett_window(4)
kaiser_window: Tensor.kaiser_window(4)
tensor_split: v.tensor_split(3)
hsplit: x.hsplit([1])
vsplit: x.vsplit(2)
dsplit: image[0].dsplit(2)[0].shape
hstack: i.hstack(i)
vstack: i.vstack(i)
row_stack: i.row_stack(i)
dstack: i.dstack(i).shape
column_stack: i.column_stack(i)
append: i.append(Tensor([1]))
insert: i.insert(1, 7)
delete: i.delete(0)
atleast_1d: Tensor(1).atleast_1d()
atleast_2d: i.atleast_2d()
atleast_3d: i.atleast_3d().shape
broadcast_tensors: i.broadcast_tensors(Tensor([[1], [2]]))[0]
broadcast_arrays: i.broadcast_arrays(Tensor([[1], [2]]))[1]
sum_to_size: x.sum_to_size(1, 3)
rollaxis: image.rollaxis(2).shape
diag_embed: i.diag_embed()
diagflat: i.diagflat(1)
diagonal_scatter: square.diagonal_scatter(Tensor([9.0, 9.0]))
select_scatter: square.select_scatter(Tensor([9.0, 9.0]), 0, 1)
slice_scatter: v.slice_scatter(Tensor([9.0, 9.0]), 0, 1, 3)
index_copy: x.index_copy(0, Tensor([1]), Tensor([[9.0, 8.0, 7.0]]))
index_fill: x.index_fill(1, Tensor([0, 2]), 0)
index_reduce: v.index_reduce(0, Tensor([0, 0]), Tensor([5.0, 6.0]), "amax")
masked_scatter: v.masked_scatter(v < 0, Tensor([7.0, 8.0]))
at: Tensor([1, 2, 3]).at[[0, 0]].add(5)
take_along_dim: x.take_along_dim(x.argsort(), 1)
choose: Tensor([0, 1, 0]).choose([i, -i])
compress: x.compress([False, True, True], axis=1)
extract: v.extract(v > 0)
nonzero_static: v.nonzero_static(size=5)
flatnonzero: v.flatnonzero()
isin: i.isin(Tensor([3, 4, 5]))
union1d: i.union1d(Tensor([1, 3]))
intersect1d: i.intersect1d(Tensor([1, 3]))
setdiff1d: i.setdiff1d(Tensor([1, 3]))
setxor1d: i.setxor1d(Tensor([1, 3]))
unique_consecutive: Tensor([1, 1, 2, 1]).unique_consecutive()
bucketize: v.bucketize(Tensor([-1.0, 0.0, 1.0]))
digitize: v.digitize(Tensor([-1.0, 0.0, 1.0]))
histc: v.histc(4)
unravel_index: i.unravel_index((4, 5))
ravel_multi_index: Tensor([1, 2]).ravel_multi_index((4, 5), Tensor([0, 3]))
partition: i.partition(1)
argpartition: i.argpartition(1)
lexsort: Tensor([[1, 0, 1], [0, 1, 0]]).lexsort()
nanprod: Tensor([2.0, float("nan")]).nanprod()
nancumsum: Tensor([2.0, float("nan"), 1.0]).nancumsum()
nancumprod: Tensor([2.0, float("nan"), 3.0]).nancumprod()
nanmax: Tensor([2.0, float("nan")]).nanmax()
nanmin: Tensor([2.0, float("nan")]).nanmin()
nanargmax: Tensor([float("nan"), 2.0]).nanargmax()
nanargmin: Tensor([float("nan"), 2.0]).nanargmin()
nanvar: Tensor([1.0, 3.0, float("nan")]).nanvar()
nanstd: Tensor([1.0, 3.0, float("nan")]).nanstd()
nanmedian: Tensor([1.0, 3.0, float("nan")]).nanmedian()
nanquantile: Tensor([1.0, 3.0, float("nan")]).nanquantile(0.5)
percentile: v.percentile(25)
nanpercentile: v.nanpercentile([25, 50])
diff: v.diff()
ediff1d: x.ediff1d()
trapezoid: v.trapezoid()
cumulative_trapezoid: v.cumulative_trapezoid(dx=0.5)
aminmax: x.aminmax(dim=1)
ptp: x.ptp(1)
average: v.average(weights=Tensor([0, 0, 1, 1, 2]))
interp: Tensor([0.5, 1.5]).interp(Tensor([0.0, 1.0, 2.0]), Tensor([0.0, 10.0, 0.0]))
convolve: i.convolve(Tensor([1, 1]))
correlate: i.correlate(Tensor([1, 1]))
logspace: Tensor.logspace(0, 2, 3)
geomspace: Tensor.geomspace(1, 8, 4)
identity: Tensor.identity(2)
tri: Tensor.tri(3)
tril_indices: Tensor.tril_indices(3, 3)
triu_indices: Tensor.triu_indices(3, 3)
indices: Tensor.indices((2, 2))
cartesian_prod: Tensor([1, 2]).cartesian_prod(Tensor([3, 4]))
combinations: i.combinations()
is_cuda: v.is_cuda
is_cpu: v.is_cpu
get_device: v.get_device()
is_complex: z.is_complex()
is_signed: v.is_signed()
is_conj: v.is_conj()
is_neg: v.is_neg()
is_inference: v.is_inference()
is_same_size: v.is_same_size(i)
is_set_to: v.is_set_to(i)
is_nonzero: Tensor(1).is_nonzero()
itemsize: v.itemsize
to_device: v.to_device("CPU").device
tobytes: Tensor([1, 2], dtype="int16").tobytes()
narrow_copy: v.narrow_copy(0, 1, 2)
uniform_: v.clone().uniform_().shape
normal_: v.clone().normal_().shape
log_normal_: v.clone().log_normal_().shape
exponential_: v.clone().exponential_().shape
cauchy_: v.clone().cauchy_().shape
geometric_: v.clone().geometric_(0.5).shape
bernoulli_: v.clone().bernoulli_(1.0)
random_: i.clone().random_(1, 2)
randint_like: i.randint_like(1, 2)
relu_: v.clone().relu_()
squeeze_: Tensor([[1, 2]]).squeeze_()
bitwise_count: i.bitwise_count()
divmod: i.divmod(4)
spacing: Tensor([1.0]).spacing() * 2**23
unwrap: Tensor([0.0, 3.0, 6.0, 9.0 - 6.2832]).unwrap()
polyval: Tensor([1.0, 0.0, -1.0]).polyval(v)
packbits: (v > 0).packbits()
unpackbits: Tensor([5], dtype="uint8").unpackbits()
matvec: square.matvec(v[:2])
vecmat: v[:2].vecmat(square)
trim_zeros: Tensor([0, 1, 2, 0]).trim_zeros()
array_equiv: i.array_equiv(i)
unique_values: i.unique_values()
unique_counts: i.unique_counts()
unique_inverse: i.unique_inverse()
unique_all: i.unique_all()
flat: x.flat
iscomplex: z.iscomplex()
tril_indices_from: square.tril_indices_from()
triu_indices_from: square.triu_indices_from()
histogram_bin_edges: v.histogram_bin_edges(4)
shrink_to: x.shrink_to(1, 2)
pad_to: i.pad_to(5)
const: Tensor.const(2.5)
invalids: Tensor.invalids(2, 3).shape
max_shape: x.max_shape
is_param: v.is_param
is_param_: v.clone().is_param_().is_param
keccak: Tensor(b"abc").keccak()[:4]
hash: Tensor(b"abc").hash()[:4]
schedule_linear: len((v * 2).schedule_linear().src)
hanning: Tensor.hanning(4)
hamming: Tensor.hamming(4)
blackman: Tensor.blackman(4)
bartlett: Tensor.bartlett(4)
kaiser: Tensor.kaiser(4, 5.0)
uop: v.relu().uop.op.name
"""

# Names without a value to show; their pages have examples.
NONE = {
    "custom_kernel": "gradients.md",
    "from_url": "data.md",
    "train": "training.md",
    "manual_seed": "random.md",
    "get_rng_state": "random.md",
    "set_rng_state": "random.md",
    "put_along_axis": "indexing.md",
    "put": "migration.md",
    "putmask": "migration.md",
    "place": "migration.md",
    "fill_diagonal": "migration.md",
    "fill": "migration.md",
    "tofile": "data.md",
    "show": "data.md",
}
