"""An LSTM that learns to spell one sentence, a letter at a time."""

import whit.torch as torch
from whit.torch import nn

TEXT = "the quick brown fox "


class Speller(nn.Module):
    def __init__(self, letters, hidden):
        super().__init__()
        self.embedding = nn.Embedding(letters, 8)
        self.lstm = nn.LSTM(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, letters)

    def forward(self, ids, state=None):
        out, state = self.lstm(self.embedding(ids), state)
        return self.head(out), state


def main():
    torch.manual_seed(3)
    letters = sorted(set(TEXT))
    ids = torch.tensor([[letters.index(letter) for letter in TEXT]])
    model = Speller(len(letters), 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    losses = []
    for _ in range(40):
        logits, _ = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, len(letters)), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    spelled, state, current = "t", None, ids[:, :1]
    with torch.no_grad():
        for _ in range(6):
            logits, state = model(current, state)
            current = logits[:, -1].argmax(dim=-1, keepdim=True)
            spelled += letters[current.item()]
    return {"falls": losses[-1] < 0.3 * losses[0], "spelled": spelled.startswith("the "), "letters": len(letters)}
