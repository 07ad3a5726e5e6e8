"""Lightning fit and validation, with data loader workers and pinned memory."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(-1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def loader():
    data = TensorDataset(torch.randn(256, 64), torch.randint(10, (256,)))
    return DataLoader(data, batch_size=32, num_workers=2, pin_memory=True, persistent_workers=True)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="gpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        precision="bf16-mixed",
        gradient_clip_val=1.0,
    )
    trainer.fit(Classifier(), loader(), loader())
    print(trainer.callback_metrics)
