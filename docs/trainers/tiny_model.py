"""Makes models of random weights and their tokenizers without any download, for the tests in this
directory.

python tiny_model.py DIRECTORY: about 0.1 million parameters, at most 1,024 tokens, and the chat
template of Qwen3 as TRL ships it for training. A frequent phrase is one token, which keeps
conversations short; each digit is a token.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
IMAGE = "<|image_pad|>"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = [
    f"<{mark}{name}>" for name in ("think", "tool_call", "tool_response") for mark in ("", "/")
]


def make(
    directory: Path,
    texts: Iterable[str] = (),
    template: str = "qwen3_training.jinja",
    *,
    seed: int = 0,
    **sizes: int,
) -> int:
    """Save the model and its tokenizer, and return the number of parameters.

    `texts`: what the tokens are learned from; none: the tokens are bytes. `sizes`: members of
    `Qwen3Config`.
    """
    tokenizer = _tokenizer(texts, template)
    tokenizer.save_pretrained(directory)
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(_config(tokenizer, **sizes))
    model.save_pretrained(directory)
    return int(model.num_parameters())


def make_with_images(directory: Path, texts: Iterable[str] = ()) -> None:
    """Save a model that sees images of 16 x 16 pixels, and its processor, with the template of
    Qwen3-VL."""
    tokenizer = _tokenizer(texts, "qwen3_vl_training.jinja")
    tokenizer.add_special_tokens({"additional_special_tokens": [IMAGE]})
    LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
        ),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="full",
        image_token=IMAGE,
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    ).save_pretrained(directory)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=16, patch_size=8),
        text_config=_config(tokenizer),
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        image_seq_length=5,
    )
    LlavaForConditionalGeneration(config).save_pretrained(directory)


def _tokenizer(texts: Iterable[str], template: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    digits, lines = (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split("\n", "isolated"),
    )
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, lines, whole]
    )  # so phrases become tokens, and digits stay
    tokenizer.decoder = decoders.ByteLevel()
    learned = {
        "vocab_size": 1024,
        "special_tokens": SPECIAL,
        "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),
    }
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(**learned, show_progress=False))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.add_tokens(MARKS)
    fast.chat_template = (TEMPLATES / template).read_text(encoding="utf-8")
    return fast


def _config(tokenizer: PreTrainedTokenizerFast, **sizes: int) -> Qwen3Config:
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}
    return Qwen3Config(
        vocab_size=len(tokenizer),
        **{**small, **heads, **sizes},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
