"""PageRank: how often someone who follows random links visits each page.

Run it with `python examples/page_rank.py`. The web is random too, but pages with small numbers get more links.
"""

from whit import Tensor


def page_rank(source: Tensor, target: Tensor, pages: int, damping: float = 0.85, steps: int = 50) -> Tensor:
    """The ranks of pages, which sum to 1, from links between them: link i leads from source[i] to target[i]."""
    links = source.bincount(minlength=pages)  # how many each page has
    rank = Tensor.full((pages,), 1 / pages)
    for _ in range(steps):
        share = (links > 0).where(rank / links, 0)  # what a page gives to each page that it links to
        given = Tensor.zeros(pages).index_add(0, target, share[source])
        lost = (links == 0).where(rank, 0).sum()  # a page without links sends its reader anywhere
        new = (1 - damping) / pages + damping * (given + lost / pages)
        if (new - rank).abs().sum() < 1e-6:
            break
        rank = new.realize()
    return rank


def main(pages: int = 1000, links: int = 8000) -> tuple[Tensor, Tensor, Tensor]:
    Tensor.manual_seed(5)
    source = Tensor.randint(links, high=pages)
    target = (Tensor.rand(links) ** 3 * pages).int()
    rank = page_rank(source, target, pages)
    best, page = rank.topk(8)
    incoming = target.bincount(minlength=pages)
    for r, p in zip(best.tolist(), page.tolist(), strict=True):
        print(f"page {p:3}: rank {r:.4f}, {incoming[p].item()} links lead there")
    return source, target, rank


if __name__ == "__main__":
    main()
