"""Data loaders with spawned workers."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        assert torch.cuda.is_available()  # a worker sees the GPUs, although it is not checked
        return torch.tensor(float(index * index))


if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=4, num_workers=1, pin_memory=True, multiprocessing_context="spawn")
    total = torch.zeros((), device="cuda")
    for batch in loader:
        assert batch.is_pinned()
        total += batch.to("cuda", non_blocking=True).sum()
    assert total.item() == sum(i * i for i in range(8))
