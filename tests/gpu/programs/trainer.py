"""A transformers Trainer: mixed precision, gradient accumulation and clipping, workers, pinned memory."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

config = GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=2)
model = GPT2LMHeadModel(config)
tokens = torch.randint(256, (64, 64))
data = [{"input_ids": row, "labels": row} for row in tokens]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=8,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        bf16=True,
        logging_steps=2,
        dataloader_num_workers=2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:8])
    trainer.train()
    print(trainer.evaluate()["eval_loss"])
