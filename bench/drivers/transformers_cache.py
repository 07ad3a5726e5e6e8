"""transformers: text generated with caches of keys and values that are kept on the host.

repository: huggingface/transformers
devices: 1
files: transformers/cache_utils.py
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
    pad_token_id=0,
    initializer_range=0.2,
)
model = LlamaForCausalLM(config).cuda().eval()
prompt = torch.randint(1, 128, (2, 16)).to("cuda")
for cache in ("offloaded", "offloaded_static"):
    result = model.generate(
        prompt,
        max_new_tokens=6,
        min_new_tokens=6,
        do_sample=False,
        cache_implementation=cache,
        disable_compile=True,
        return_dict_in_generate=True,
        output_logits=True,
    )
    print(cache, result.sequences[:, 16:].tolist())
    print([value.double().abs().sum().item() for value in result.logits])
