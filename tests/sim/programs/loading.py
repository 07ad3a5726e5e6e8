"""Data loaders with pinned memory and with forked workers."""

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return {"x": torch.full((3,), float(index)), "y": torch.tensor(index)}


seen = []
loader = DataLoader(TensorDataset(torch.arange(24.0).reshape(8, 3), torch.arange(8)), batch_size=2, pin_memory=True)
for x, y in loader:
    assert x.is_pinned()
    assert y.is_pinned()
    moved, labels = x.to("cuda:1", non_blocking=True), y.cuda(1, non_blocking=True)
    seen += labels.tolist()
    assert (moved.sum(1) == labels * 9 + 3).all()
assert seen == list(range(8))

loader = DataLoader(
    Squares(), batch_size=4, num_workers=2, pin_memory=True, persistent_workers=True, multiprocessing_context="fork"
)
for _ in range(2):
    total = torch.zeros((), device="cuda:2")
    for batch in loader:
        assert batch["x"].is_pinned()
        x = batch["x"].to("cuda:2", non_blocking=True)
        total += x.sum()
    assert total.item() == 3 * sum(range(32))

loader = DataLoader(
    Squares(),
    batch_size=4,
    num_workers=1,
    shuffle=True,
    generator=torch.Generator().manual_seed(0),
    multiprocessing_context="fork",
)
assert sorted(int(i) for batch in loader for i in batch["y"].cuda()) == list(range(32))
