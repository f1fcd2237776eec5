"""Makes a model of random weights and a tokenizer without any download, for the tests of the pages in this directory.

python tiny_model.py DIRECTORY: about 0.1 million parameters, 512 tokens, and the chat template of Qwen3 as TRL ships it
for training.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make(directory: Path, texts: Iterable[str] = (), template: str = "qwen3_training.jinja") -> None:
    """Save the model and its tokenizer. `texts`: what the tokens are learned from; none: the tokens are bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False),
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = (TEMPLATES / template).read_text(encoding="utf-8")
    fast.save_pretrained(directory)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast),
        **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096},
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(directory)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
