"""Actor and critic on a corridor: discounted returns, a target network, no gradient through the target."""

import whit.torch as torch
import whit.torch.nn as nn
import whit.torch.nn.functional as F


def main():
    online = nn.Linear(4, 2, bias=False)
    target = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        online.weight.copy_(torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]))
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
    states = torch.eye(4)
    following = torch.roll(states, 1, dims=0)
    actions = torch.tensor([0, 1, 0, 1])
    rewards = torch.tensor([0.0, 0.0, 1.0, 5.0])
    done = torch.tensor([False, False, False, True])
    losses = []
    for step in range(10):
        chosen = online(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = torch.max(target(following), dim=1).values
            wanted = rewards + 0.9 * best * (~done)
        loss = F.smooth_l1_loss(chosen, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters()):
                slow.mul_(0.9).add_(fast, alpha=0.1)
        losses.append(loss.item())
    returns, total = [], 0.0
    for reward in reversed(rewards.tolist()):
        total = reward + 0.9 * total
        returns.insert(0, total)
    probabilities = F.softmax(online(states), dim=-1)
    log_prob = torch.log(probabilities.gather(1, actions.unsqueeze(1))).squeeze(1)
    entropy = -(probabilities * probabilities.log()).sum(-1).mean()
    policy_loss = -(log_prob * torch.tensor(returns)).mean() - 0.01 * entropy
    online.zero_grad()
    policy_loss.backward()
    return {
        "losses": losses,
        "online": online.weight.tolist(),
        "target": target.weight.tolist(),
        "policy": policy_loss.item(),
        "slope": online.weight.grad[0].tolist(),
    }
