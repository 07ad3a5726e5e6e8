"""What the pages call the program's own service."""

import torch


def requests():
    for length in (4, 4, 8, 4):
        yield torch.ones(length)


def handle(request):
    return request.cuda().sum().item()
