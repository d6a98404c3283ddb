"""Recurrent layers and cells."""

from nn.pytorch.compare import case

CASES = [
    case("nn.RNN(3, 4)", "m(x)", x="5,2,3"),
    case("nn.RNN(3, 4, 2, 'relu', False, True)", "m(x, h)", x="2,5,3", h="2,2,4"),
    case("nn.RNN(3, 4, nonlinearity='relu', bidirectional=True)", "m(x)", x="1,2,3"),
    case("nn.GRU(3, 4)", "m(x)", x="5,2,3"),
    case("nn.GRU(3, 4, 2, bias=False, batch_first=True, bidirectional=True)", "m(x, h)", x="2,5,3", h="4,2,4"),
    case("nn.GRU(3, 4, num_layers=2, dropout=0.5)", "m(x)", x="5,3"),
    case("nn.LSTM(3, 4)", "m(x)", x="5,2,3"),
    case("nn.LSTM(3, 4, 2, bidirectional=True)", "m(x, (h, c))", x="5,2,3", h="4,2,4", c="4,2,4"),
    case("nn.LSTM(3, 4, 2, proj_size=2, batch_first=True)", "m(x)", x="2,5,3"),
    case("nn.LSTM(3, 5, proj_size=2, bidirectional=True, bias=False)", "m(x, (h, c))", x="4,3", h="2,2", c="2,5"),
    case("nn.LSTM(1, 1)", "m(x)", x="1,1,1"),
    case(
        "nn.LSTM(3, 4, 2, bidirectional=True)",
        "(lambda o: (nn.utils.rnn.pad_packed_sequence(o[0])[0], o[1]))"
        "(m(nn.utils.rnn.pack_padded_sequence(x, [5, 2, 3], enforce_sorted=False)))",
        x="5,3,3",
    ),
    case(
        "nn.GRU(3, 4, batch_first=True)",
        "(lambda o: (nn.utils.rnn.pad_packed_sequence(o[0], batch_first=True)[0], o[1]))"
        "(m(nn.utils.rnn.pack_padded_sequence(x, [4, 4, 1], batch_first=True)))",
        x="3,4,3",
    ),
    case("nn.LSTMCell(3, 4)", "m(x)", x="2,3"),
    case("nn.LSTMCell(3, 4, bias=False)", "m(x, (h, c))", x="3", h="4", c="4"),
    case("nn.GRUCell(3, 4)", "m(x, h)", x="2,3", h="2,4"),
    case("nn.RNNCell(3, 4)", "m(x, h)", x="2,3", h="2,4"),
    case("nn.RNNCell(3, 4, nonlinearity='relu')", "m(x)", x="2,3"),
    case("", "nn.utils.rnn.pad_sequence([x, y], batch_first=True, padding_value=0.5)", x="2,3", y="4,3"),
    case("", "nn.utils.rnn.pad_sequence([x, y], padding_side='left')", x="2,3", y="4,3"),
]
