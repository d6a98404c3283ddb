# ruff: noqa: E501  a name is a line
"""An example of what `help` shows of names that `reference_examples` has none of: layers, optimisers, transforms and
functions of whit, and methods whose value is not on the page of Tensor.

    name: code                 the last expression of it is shown with its value; statements are parted by "; "

The code sees the names of `SETUP`, of which help shows those that it needs.
"""

SETUP = """\
from whit import Context, Device, GlobalCounters, Tensor, TinyJit, UOp, Variable, checkpoint, dtypes, nn
import whit
x = Tensor([[3.0, 1.0, 2.0], [-1.0, 0.5, 4.0]])
v = Tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
signal = Tensor.arange(16).reshape(1, 2, 8).float()
image = Tensor.arange(192).reshape(1, 3, 8, 8).float()
volume = Tensor.arange(128).reshape(1, 2, 4, 4, 4).float()
steps = Tensor.arange(24).reshape(4, 2, 3).float()
logits, classes = Tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]), Tensor([0, 2])
shares = Tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1]])
signs = Tensor([1.0, -1.0])
model = nn.Linear(3, 2)"""

EXAMPLES = """
nn.CELU: nn.CELU()(v)
nn.ELU: nn.ELU()(v)
nn.GELU: nn.GELU()(v)
nn.GLU: nn.GLU()(signal).shape
nn.GRU: gru = nn.GRU(3, 5); out, hidden = gru(steps); out.shape, hidden.shape
nn.LSTM: lstm = nn.LSTM(3, 5); out, (hidden, cell) = lstm(steps); out.shape, hidden.shape
nn.RNN: rnn = nn.RNN(3, 5); out, hidden = rnn(steps); out.shape, hidden.shape
nn.SELU: nn.SELU()(v)
nn.AdaptiveLogSoftmaxWithLoss: nn.AdaptiveLogSoftmaxWithLoss(3, 6, [2, 4])(x, classes).output.shape
nn.LazyBatchNorm1d: nn.LazyBatchNorm1d()(signal).shape
nn.LazyBatchNorm2d: nn.LazyBatchNorm2d()(image).shape
nn.LazyBatchNorm3d: nn.LazyBatchNorm3d()(volume).shape
nn.LazyConv1d: nn.LazyConv1d(4, 3)(signal).shape
nn.LazyConv2d: nn.LazyConv2d(8, 3)(image).shape
nn.LazyConv3d: nn.LazyConv3d(4, 3)(volume).shape
nn.LazyConvTranspose1d: nn.LazyConvTranspose1d(4, 3)(signal).shape
nn.LazyConvTranspose2d: nn.LazyConvTranspose2d(8, 3)(image).shape
nn.LazyConvTranspose3d: nn.LazyConvTranspose3d(4, 3)(volume).shape
nn.LazyInstanceNorm1d: nn.LazyInstanceNorm1d()(signal).shape
nn.LazyInstanceNorm2d: nn.LazyInstanceNorm2d()(image).shape
nn.LazyInstanceNorm3d: nn.LazyInstanceNorm3d()(volume).shape
nn.LazyLinear: nn.LazyLinear(2)(x).shape
nn.AdaptiveAvgPool1d: nn.AdaptiveAvgPool1d(2)(signal)
nn.AdaptiveAvgPool2d: nn.AdaptiveAvgPool2d(2)(image).shape
nn.AdaptiveAvgPool3d: nn.AdaptiveAvgPool3d(2)(volume).shape
nn.AdaptiveMaxPool1d: nn.AdaptiveMaxPool1d(2)(signal)
nn.AdaptiveMaxPool2d: nn.AdaptiveMaxPool2d(2)(image).shape
nn.AdaptiveMaxPool3d: nn.AdaptiveMaxPool3d(2)(volume).shape
nn.AlphaDropout: nn.AlphaDropout(0.2).eval()(v)
nn.AvgPool1d: nn.AvgPool1d(4)(signal)
nn.AvgPool2d: nn.AvgPool2d(2)(image).shape
nn.AvgPool3d: nn.AvgPool3d(2)(volume).shape
nn.BCELoss: nn.BCELoss()(shares[:, 0], Tensor([1.0, 0.0]))
nn.BCEWithLogitsLoss: nn.BCEWithLogitsLoss()(logits[:, 0], Tensor([1.0, 0.0]))
nn.BatchNorm: nn.BatchNorm(3)(image).shape
nn.BatchNorm1d: nn.BatchNorm1d(2)(signal).shape
nn.BatchNorm2d: nn.BatchNorm2d(3)(image).shape
nn.BatchNorm3d: nn.BatchNorm3d(2)(volume).shape
nn.Bilinear: nn.Bilinear(3, 3, 4)(x, x).shape
nn.CTCLoss: ctc = nn.CTCLoss(); ctc(steps.log_softmax(-1), Tensor([[1, 2], [2, 1]]), Tensor([4, 4]), Tensor([2, 2])).shape
nn.ChannelShuffle: nn.ChannelShuffle(2)(volume[:, :, 0]).shape
nn.CircularPad1d: nn.CircularPad1d(1)(signal)[0, 0]
nn.CircularPad2d: nn.CircularPad2d(1)(image).shape
nn.CircularPad3d: nn.CircularPad3d(1)(volume).shape
nn.ConstantPad1d: nn.ConstantPad1d(1, 9.0)(signal)[0, 0]
nn.ConstantPad2d: nn.ConstantPad2d(1, 9.0)(image).shape
nn.ConstantPad3d: nn.ConstantPad3d(1, 9.0)(volume).shape
nn.Conv1d: nn.Conv1d(2, 4, 3, padding=1)(signal).shape
nn.Conv2d: nn.Conv2d(3, 8, 3, padding=1)(image).shape
nn.Conv3d: nn.Conv3d(2, 4, 3)(volume).shape
nn.ConvTranspose1d: nn.ConvTranspose1d(2, 4, 2, stride=2)(signal).shape
nn.ConvTranspose2d: nn.ConvTranspose2d(3, 8, 2, stride=2)(image).shape
nn.ConvTranspose3d: nn.ConvTranspose3d(2, 4, 2, stride=2)(volume).shape
nn.CosineEmbeddingLoss: nn.CosineEmbeddingLoss()(x, x * 2, signs)
nn.CosineSimilarity: nn.CosineSimilarity()(x, x * 2)
nn.CrossEntropyLoss: nn.CrossEntropyLoss()(logits, classes)
nn.Dropout: nn.Dropout(0.2).eval()(v)
nn.Dropout1d: nn.Dropout1d(0.2).eval()(signal).shape
nn.Dropout2d: nn.Dropout2d(0.2).eval()(image).shape
nn.Dropout3d: nn.Dropout3d(0.2).eval()(volume).shape
nn.Embedding: nn.Embedding(10, 4)(Tensor([[1, 2, 9]])).shape
nn.EmbeddingBag: nn.EmbeddingBag(10, 4)(Tensor([[1, 2, 9]])).shape
nn.FeatureAlphaDropout: nn.FeatureAlphaDropout(0.2).eval()(image).shape
nn.Flatten: nn.Flatten()(image).shape
nn.Fold: nn.Fold((4, 4), (2, 2), stride=2)(Tensor.ones(1, 8, 4)).shape
nn.FractionalMaxPool2d: nn.FractionalMaxPool2d(2, output_ratio=0.5)(image).shape
nn.FractionalMaxPool3d: nn.FractionalMaxPool3d(2, output_size=2)(volume).shape
nn.GRUCell: nn.GRUCell(3, 5)(x).shape
nn.GaussianNLLLoss: nn.GaussianNLLLoss()(x, x + 1, Tensor.ones(2, 3))
nn.GroupNorm: nn.GroupNorm(2, 4)(Tensor.ones(1, 4, 6)).shape
nn.Hardshrink: nn.Hardshrink()(v)
nn.Hardsigmoid: nn.Hardsigmoid()(v)
nn.Hardswish: nn.Hardswish()(v)
nn.Hardtanh: nn.Hardtanh()(v)
nn.HingeEmbeddingLoss: nn.HingeEmbeddingLoss()(Tensor([0.3, 0.6]), signs)
nn.HuberLoss: nn.HuberLoss()(x, x + 2)
nn.Identity: nn.Identity()(v)
nn.InstanceNorm: nn.InstanceNorm(3)(image).shape
nn.InstanceNorm1d: nn.InstanceNorm1d(2)(signal).shape
nn.InstanceNorm2d: nn.InstanceNorm2d(3)(image).shape
nn.InstanceNorm3d: nn.InstanceNorm3d(2)(volume).shape
nn.KLDivLoss: nn.KLDivLoss(reduction="batchmean")(logits.log_softmax(), shares)
nn.L1Loss: nn.L1Loss()(x, x + 2)
nn.LPPool1d: nn.LPPool1d(2, 4)(signal)
nn.LPPool2d: nn.LPPool2d(2, 2)(image).shape
nn.LPPool3d: nn.LPPool3d(2, 2)(volume).shape
nn.LSTMCell: hidden, cell = nn.LSTMCell(3, 5)(x); hidden.shape
nn.LayerNorm: nn.LayerNorm(3)(x)
nn.LayerNorm2d: nn.LayerNorm2d(3)(image).shape
nn.LeakyReLU: nn.LeakyReLU(0.1)(v)
nn.Linear: nn.Linear(3, 2)(x).shape
nn.LocalResponseNorm: nn.LocalResponseNorm(2)(image).shape
nn.LogSigmoid: nn.LogSigmoid()(v)
nn.LogSoftmax: nn.LogSoftmax()(logits)
nn.MSELoss: nn.MSELoss()(x, x + 2)
nn.MarginRankingLoss: nn.MarginRankingLoss()(Tensor([1.0, 2.0]), Tensor([2.0, 1.0]), signs)
nn.MaxPool1d: nn.MaxPool1d(4)(signal)
nn.MaxPool2d: nn.MaxPool2d(2)(image).shape
nn.MaxPool3d: nn.MaxPool3d(2)(volume).shape
nn.MaxUnpool1d: top, places = nn.MaxPool1d(2, return_indices=True)(signal); nn.MaxUnpool1d(2)(top, places)[0, 0]
nn.MaxUnpool2d: top, places = nn.MaxPool2d(2, return_indices=True)(image); nn.MaxUnpool2d(2)(top, places).shape
nn.MaxUnpool3d: top, places = nn.MaxPool3d(2, return_indices=True)(volume); nn.MaxUnpool3d(2)(top, places).shape
nn.Mish: nn.Mish()(v)
nn.Module: net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)); [name for name, _ in net.named_parameters()]
nn.ModuleDict: nn.ModuleDict({"first": nn.Linear(3, 2)})["first"](x).shape
nn.ModuleList: layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 2)]); len(layers)
nn.MultiHeadAttention: nn.MultiHeadAttention(8, 2)(Tensor.ones(1, 5, 8)).shape
nn.MultiLabelMarginLoss: nn.MultiLabelMarginLoss()(logits, Tensor([[0, -1, -1], [1, 2, -1]]))
nn.MultiLabelSoftMarginLoss: nn.MultiLabelSoftMarginLoss()(logits, Tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]))
nn.MultiMarginLoss: nn.MultiMarginLoss()(logits, classes)
nn.MultiheadAttention: y = Tensor.ones(5, 1, 8); out, weights = nn.MultiheadAttention(8, 2)(y, y, y); out.shape, weights.shape
nn.NLLLoss: nn.NLLLoss()(logits.log_softmax(), classes)
nn.PReLU: nn.PReLU()(v)
nn.PairwiseDistance: nn.PairwiseDistance()(x, x + 2)
nn.Parameter: scale = nn.Parameter(Tensor([1.0, 2.0])); scale.requires_grad
nn.ParameterDict: list(nn.ParameterDict({"scale": Tensor([1.0])}))
nn.ParameterList: len(nn.ParameterList([Tensor([1.0]), Tensor([2.0])]))
nn.PixelShuffle: nn.PixelShuffle(2)(Tensor.ones(1, 8, 3, 3)).shape
nn.PixelUnshuffle: nn.PixelUnshuffle(2)(image).shape
nn.PoissonNLLLoss: nn.PoissonNLLLoss()(x, x.abs())
nn.RMSNorm: nn.RMSNorm(3)(x)
nn.RNNCell: nn.RNNCell(3, 5)(x).shape
nn.RReLU: nn.RReLU().eval()(v)
nn.ReLU: nn.ReLU()(v)
nn.ReLU6: nn.ReLU6()(v * 10)
nn.ReflectionPad1d: nn.ReflectionPad1d(2)(signal)[0, 0]
nn.ReflectionPad2d: nn.ReflectionPad2d(1)(image).shape
nn.ReflectionPad3d: nn.ReflectionPad3d(1)(volume).shape
nn.ReplicationPad1d: nn.ReplicationPad1d(2)(signal)[0, 0]
nn.ReplicationPad2d: nn.ReplicationPad2d(1)(image).shape
nn.ReplicationPad3d: nn.ReplicationPad3d(1)(volume).shape
nn.Sequential: net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)); net(x).shape
nn.SiLU: nn.SiLU()(v)
nn.Sigmoid: nn.Sigmoid()(v)
nn.SmoothL1Loss: nn.SmoothL1Loss()(x, x + 2)
nn.SoftMarginLoss: nn.SoftMarginLoss()(Tensor([0.5, 0.5]), signs)
nn.Softmax: nn.Softmax()(logits)
nn.Softmax2d: nn.Softmax2d()(image).shape
nn.Softmin: nn.Softmin()(logits)
nn.Softplus: nn.Softplus()(v)
nn.Softshrink: nn.Softshrink()(v)
nn.Softsign: nn.Softsign()(v)
nn.Tanh: nn.Tanh()(v)
nn.Tanhshrink: nn.Tanhshrink()(v)
nn.Threshold: nn.Threshold(0.1, 20.0)(v)
nn.Transformer: nn.Transformer(8, 2, 1, 1, 16)(Tensor.ones(5, 1, 8), Tensor.ones(4, 1, 8)).shape
nn.TransformerBlock: nn.TransformerBlock(8, 2)(Tensor.ones(1, 5, 8)).shape
nn.TransformerDecoder: layer = nn.TransformerDecoderLayer(8, 2, 16); nn.TransformerDecoder(layer, 2)(Tensor.ones(4, 1, 8), Tensor.ones(5, 1, 8)).shape
nn.TransformerDecoderLayer: nn.TransformerDecoderLayer(8, 2, 16)(Tensor.ones(4, 1, 8), Tensor.ones(5, 1, 8)).shape
nn.TransformerEncoder: layer = nn.TransformerEncoderLayer(8, 2, 16); nn.TransformerEncoder(layer, 2)(Tensor.ones(5, 1, 8)).shape
nn.TransformerEncoderLayer: nn.TransformerEncoderLayer(8, 2, 16)(Tensor.ones(5, 1, 8)).shape
nn.TripletMarginLoss: nn.TripletMarginLoss()(x, x + 1, x - 2)
nn.TripletMarginWithDistanceLoss: nn.TripletMarginWithDistanceLoss()(x, x + 1, x - 2)
nn.Unflatten: nn.Unflatten(1, (2, 4))(Tensor.ones(3, 8)).shape
nn.Unfold: nn.Unfold((2, 2), stride=2)(image).shape
nn.Upsample: nn.Upsample(scale_factor=2)(image).shape
nn.UpsamplingBilinear2d: nn.UpsamplingBilinear2d(scale_factor=2)(image).shape
nn.UpsamplingNearest2d: nn.UpsamplingNearest2d(scale_factor=2)(image).shape
nn.ZeroPad1d: nn.ZeroPad1d(1)(signal)[0, 0]
nn.ZeroPad2d: nn.ZeroPad2d(1)(image).shape
nn.ZeroPad3d: nn.ZeroPad3d(1)(volume).shape
nn.summary: print(nn.summary(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))))
nn.optim.ASGD: opt = nn.optim.ASGD(model.parameters(), lr=0.1); loss = model(x).square().mean().backward(); opt.step()
nn.optim.EMA: ema = nn.optim.EMA(model.parameters(), decay=0.99); ema.update()
nn.optim.LAMB: opt = nn.optim.LAMB(model.parameters(), lr=0.1); loss = model(x).square().mean().backward(); opt.step()
nn.optim.LARS: opt = nn.optim.LARS(model.parameters(), lr=0.1); loss = model(x).square().mean().backward(); opt.step()
nn.optim.LBFGS: opt = nn.optim.LBFGS(model.parameters(), lr=0.1); opt.step(lambda: model(x).square().mean().backward()).shape
nn.optim.SGD: opt = nn.optim.SGD(model.parameters(), lr=0.1); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Adadelta: opt = nn.optim.Adadelta(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Adafactor: opt = nn.optim.Adafactor(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Adagrad: opt = nn.optim.Adagrad(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Adam: opt = nn.optim.Adam(model.parameters(), lr=1e-3); loss = model(x).square().mean().backward(); opt.step()
nn.optim.AdamW: opt = nn.optim.AdamW(model.parameters(), lr=1e-3); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Adamax: opt = nn.optim.Adamax(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.CosineAnnealing: opt = nn.optim.SGD(model.parameters(), lr=0.1); schedule = nn.optim.CosineAnnealing(opt, 100); schedule.step()
nn.optim.LossScaler: opt, scaler = nn.optim.SGD(model.parameters(), lr=0.1), nn.optim.LossScaler(); loss = scaler.backward(model(x).square().mean()); scaler.step(opt)
nn.optim.MultiStep: opt = nn.optim.SGD(model.parameters(), lr=0.1); schedule = nn.optim.MultiStep(opt, [30, 60]); schedule.step()
nn.optim.Muon: opt = nn.optim.Muon([model.weight], lr=0.02); loss = model(x).square().mean().backward(); opt.step()
nn.optim.NAdam: opt = nn.optim.NAdam(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.OneCycle: opt = nn.optim.SGD(model.parameters(), lr=0.1); schedule = nn.optim.OneCycle(opt, 100); schedule.step()
nn.optim.Optimizer: opt = nn.optim.SGD(model.parameters(), lr=0.1); opt.lr = 0.05; opt.param_groups[0]["lr"].shape
nn.optim.OptimizerGroup: opt = nn.optim.OptimizerGroup(nn.optim.Muon([model.weight]), nn.optim.Adam([model.bias])); loss = model(x).square().mean().backward(); opt.step()
nn.optim.RAdam: opt = nn.optim.RAdam(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.RMSprop: opt = nn.optim.RMSprop(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Rprop: opt = nn.optim.Rprop(model.parameters()); loss = model(x).square().mean().backward(); opt.step()
nn.optim.Schedule: opt = nn.optim.SGD(model.parameters(), lr=0.1); schedule = nn.optim.WarmUp(10, nn.optim.CosineAnnealing(opt, 100)); schedule.step()
nn.optim.WarmUp: opt = nn.optim.SGD(model.parameters(), lr=0.1); schedule = nn.optim.WarmUp(10, nn.optim.CosineAnnealing(opt, 100)); schedule.step()
nn.optim.clip_grad_norm: loss = model(x).square().mean().backward(); nn.optim.clip_grad_norm(model.parameters(), 1.0).shape
nn.optim.clip_grad_value: loss = model(x).square().mean().backward(); nn.optim.clip_grad_value(model.parameters(), 0.1)
Context: with Context(DEBUG=0, NOOPT=1): y = (x * 2).realize()
GlobalCounters: GlobalCounters.reset(); y = (x * 2).realize(); GlobalCounters.kernel_count
TinyJit: double = TinyJit(lambda y: (y * 2).realize()); [double(x) for _ in range(3)][-1]
checkpoint: checkpoint(lambda y: y.exp().sin(), v).shape
clear_caches: whit.clear_caches()
cond: whit.cond(v.sum() > 0, lambda y: y + 1, lambda y: y - 1, v)
fori_loop: whit.fori_loop(0, 3, lambda i, y: y * 2, Tensor([1.0, 2.0]))
map: whit.map(lambda row: row.sum(), x)
scan: last, sums = whit.scan(lambda total, row: (total + row, total + row), Tensor([0.0, 0.0, 0.0]), x); sums
while_loop: whit.while_loop(lambda y: y.sum() < 100, lambda y: y * 2, Tensor([1.0, 2.0]))
function: square = whit.function(lambda y: y * y); square(v)
getenv: whit.getenv("NOTHING_OF_THE_KIND", 3)
grad: whit.grad(lambda y: (y**2).sum())(v)
hessian: whit.hessian(lambda y: (y**3).sum())(Tensor([1.0, 2.0]))
hvp: whit.hvp(lambda y: (y**3).sum(), (Tensor([1.0, 2.0]),), (Tensor([1.0, 0.0]),))
jacfwd: whit.jacfwd(lambda y: y**2)(Tensor([1.0, 2.0]))
jacobian: whit.jacobian(lambda y: y**2)(Tensor([1.0, 2.0]))
jacrev: whit.jacrev(lambda y: y**2)(Tensor([1.0, 2.0]))
jvp: value, tangent = whit.jvp(lambda y: y.sin(), (v,), (v.ones_like(),)); tangent
linearize: value, push = whit.linearize(lambda y: y.sin(), v); push(v.ones_like())
map_tensors: whit.map_tensors(lambda y: y.shape, {"a": x, "b": [v]})
profile: with whit.profile() as found: y = (x * 2).realize()
value_and_grad: value, gradient = whit.value_and_grad(lambda y: (y**2).sum())(v); gradient
vjp: value, pull = whit.vjp(lambda y: y.sin(), v); pull(v.ones_like())
vmap: whit.vmap(lambda row: row.sum())(x)
Tensor.train: with Tensor.train(): y = v.dropout(0.5)
Tensor.manual_seed: Tensor.manual_seed(42)
Tensor.get_rng_state: state = Tensor.get_rng_state(); Tensor.set_rng_state(state)
Tensor.set_rng_state: state = Tensor.get_rng_state(); Tensor.set_rng_state(state)
Tensor.put_along_axis: y = x.clone(); y.put_along_axis(Tensor([[0], [2]]), 9.0, 1); y
Tensor.put: y = v.clone(); y.put(Tensor([0, 4]), 9.0); y
Tensor.putmask: y = v.clone(); y.putmask(v < 0, 9.0); y
Tensor.place: y = v.clone(); y.place(v < 0, Tensor([7.0, 8.0])); y
Tensor.fill_diagonal: y = Tensor.zeros(2, 2).contiguous(); y.fill_diagonal(1.0); y
Tensor.fill: y = v.clone(); y.fill(3.0); y
Tensor.fill_diagonal_: Tensor.zeros(2, 2).contiguous().fill_diagonal_(1.0)
Tensor.put_: v.clone().put_(Tensor([0, 4]), Tensor([9.0, 8.0]))
Tensor.show: (x * 2).show()
"""

# Names whose examples would reach outside of the process, or need one around them: what their help says instead.
PAGES = {
    "Tensor.cuda": "devices.md",
    "Tensor.custom_kernel": "gradients.md",
    "Tensor.from_url": "data.md",
    "Tensor.tofile": "data.md",
    "fetch": "data.md",
    "register_container": "transforms.md",
    "trace": "viz.md",
}
