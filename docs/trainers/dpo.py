"""Trains a model on preference pairs that orsweb exported.

python dpo.py EXPORT.pairs.jsonl MODEL [--output DIRECTORY]
"""

import argparse

import torch
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("export", help="written by: manage.py export_episodes --format pairs")
parser.add_argument("model", help="name or directory of a model whose chat template takes tools")
parser.add_argument("--output", default="dpo")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument(
    "--max-length", type=int, default=4096, help="tokens after which a conversation is cut off"
)
parser.add_argument("--max-steps", type=int, default=-1, help="default: one epoch")
options = parser.parse_args()

trainer = DPOTrainer(
    model=options.model,
    args=DPOConfig(
        output_dir=options.output,
        per_device_train_batch_size=options.batch_size,
        max_length=options.max_length,
        num_train_epochs=1,
        max_steps=options.max_steps,
        logging_steps=1,
        use_cpu=not torch.cuda.is_available(),
        report_to="none",
    ),
    train_dataset=load_dataset("json", data_files=options.export, split="train"),
)
trainer.train()
trainer.save_model()
