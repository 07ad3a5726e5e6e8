import torch

side = torch.cuda.Stream()


def load(batch):
    with torch.cuda.stream(side):
        loaded = batch.cuda(non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    loaded.record_stream(torch.cuda.current_stream())
    return loaded
