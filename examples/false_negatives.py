"""False negatives kept apart: known duplicates by groups, unknown ones by a margin."""

import torch
from torch.nn.functional import normalize

import batchcut as bc

torch.manual_seed(0)
stories = torch.randn(300, 32).repeat_interleave(3, dim=0)  # 300, each told in three samples ...
story_of = torch.arange(900) // 3
topics = 2 * torch.randn(15, 32)[story_of % 15]  # ... on 15 topics: hard negatives one wants
u = normalize(topics + stories + 0.3 * torch.randn(900, 32), dim=1)
v = normalize(topics + stories + 0.3 * torch.randn(900, 32), dim=1)


def told_twice(plan: bc.BatchPlan) -> int:
    """Pairs of samples in one batch that tell the same story."""
    told = [story_of[batch.tolist()] for batch in plan]
    return sum(int((stories[:, None] == stories).sum()) - len(stories) for stories in told) // 2


plans = {
    "shuffled": bc.Shuffle()(u, v, batch_size=20),
    "Cut, no guard": bc.Cut(margin=None)(u, v, batch_size=20),
    "Cut with a margin": bc.Cut(margin=0.05)(u, v, batch_size=20),
    "Cut with groups": bc.Cut(margin=None)(u, v, batch_size=20, groups=story_of),
}
for name, plan in plans.items():
    found = f"{told_twice(plan):4} pairs of one story, mean loss {plan.mean_loss:.3f}"
    reported = f"{plan.group_pairs} group pairs, {plan.margin_pairs} margin pairs"
    print(f"{name:18} {found}; reports {reported}")
