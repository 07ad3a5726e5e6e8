"""timm: a small vision model in channels-last memory, its prefetching loader, mixed precision and an average model."""

import timm
import torch
from timm.data.loader import PrefetchLoader
from timm.utils import ModelEmaV2
from torch.utils.data import DataLoader


def collate(items):
    return torch.stack([image for image, _ in items]), torch.tensor([label for _, label in items])


if __name__ == "__main__":
    images = (torch.rand(48, 3, 64, 64) * 255).to(torch.uint8)
    data = [(image, index % 10) for index, image in enumerate(images)]
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, collate_fn=collate)
    model = timm.create_model("resnet18", num_classes=10).cuda().to(memory_format=torch.channels_last)
    average = ModelEmaV2(model, decay=0.9)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler()
    for epoch in range(2):
        for x, y in PrefetchLoader(loader, device=torch.device("cuda")):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            average.update(model)
        print(epoch, loss.item())
