"""Fine-tunes a model on conversations that orsweb exported.

python sft.py EXPORT.messages.jsonl MODEL [--output DIRECTORY]
"""

import argparse

import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("export", help="written by: manage.py export_episodes --format messages")
parser.add_argument("model", help="name or directory of a model whose chat template takes tools")
parser.add_argument("--output", default="sft")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument(
    "--max-length", type=int, default=4096, help="tokens after which a conversation is cut off"
)
parser.add_argument("--learning-rate", type=float, default=2e-5)
parser.add_argument("--epochs", type=float, default=1)
parser.add_argument("--max-steps", type=int, default=-1, help="default: as many as the epochs have")
options = parser.parse_args()

trainer = SFTTrainer(
    model=options.model,
    args=SFTConfig(
        output_dir=options.output,
        assistant_only_loss=True,  # the loss leaves out what the environment said
        per_device_train_batch_size=options.batch_size,
        max_length=options.max_length,
        learning_rate=options.learning_rate,
        num_train_epochs=options.epochs,
        max_steps=options.max_steps,
        logging_steps=1,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),  # TRL's default, which is ten times slower on most CPUs
        report_to="none",
    ),
    train_dataset=load_dataset("json", data_files=options.export, split="train"),
)
trainer.train()
trainer.save_model()
