"""Recurrent, convolutional, attention and embedding networks: values as on the CPU."""

import warnings
from functools import partial

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

warnings.simplefilter("ignore")


def compare(build, inputs, call=lambda m, *a: m(*a), device="cuda:1", tolerance=1e-4):
    torch.manual_seed(0)
    plain = build()
    moved = build()
    moved.load_state_dict(plain.state_dict())
    moved.to(device)
    results = []
    for module, where in ((plain, "cpu"), (moved, device)):
        given = [t.to(where).clone().requires_grad_(t.is_floating_point()) for t in inputs]
        out = call(module, *given)
        assert out.device == torch.device(where)
        (out.float() ** 2).mean().backward()
        results.append([out.detach().cpu(), *(p.grad.cpu() for p in module.parameters() if p.grad is not None)])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, atol=tolerance), (module, (one - other).abs().max())


x = torch.randn(5, 3, 4)
for kind in (nn.RNN, nn.GRU, nn.LSTM):
    compare(partial(kind, 4, 6, num_layers=2), [x], lambda m, t: m(t)[0])
    compare(partial(kind, 4, 6, bidirectional=True, batch_first=True), [x], lambda m, t: m(t)[0])
compare(lambda: nn.LSTM(4, 6, proj_size=2), [x], lambda m, t: m(t)[0])


def packed(module, t):
    sequence = pack_padded_sequence(t, torch.tensor([5, 3, 1]), enforce_sorted=True)
    assert sequence.data.device == t.device
    return pad_packed_sequence(module(sequence)[0])[0]


compare(lambda: nn.LSTM(4, 6), [x], packed)
compare(lambda: nn.GRUCell(4, 6), [x[0]], lambda m, t: m(t, m(t)))
compare(lambda: nn.LSTMCell(4, 6), [x[0]], lambda m, t: m(t)[0])
rnn = nn.LSTM(4, 4).cuda()
rnn.flatten_parameters()
h = (torch.zeros(1, 3, 4, device="cuda"), torch.zeros(1, 3, 4, device="cuda"))
for _ in range(2):
    out, h = rnn(x.cuda(), tuple(t.detach() for t in h))
assert out.is_cuda

rows = torch.tensor([[1, 2, 4], [4, 3, 9]])
compare(lambda: nn.Embedding(10, 4, padding_idx=0), [rows])
compare(lambda: nn.Embedding(10, 4, max_norm=1.0), [rows], lambda m, r: m(r).clone())
compare(lambda: nn.EmbeddingBag(10, 4, mode="sum"), [rows])
compare(lambda: nn.EmbeddingBag(10, 4), [rows.flatten(), torch.tensor([0, 2])])

image = torch.randn(2, 3, 8, 8)
compare(
    lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.GroupNorm(2, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    ),
    [image],
)
compare(lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.InstanceNorm1d(4), nn.AvgPool1d(2)), [torch.randn(2, 3, 9)])
compare(lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.PReLU()), [torch.randn(1, 1, 4, 4, 4)])
resize = nn.Upsample(scale_factor=2, mode="bilinear")
compare(lambda: nn.Sequential(nn.Conv2d(3, 3, 1), resize, nn.ReflectionPad2d(1), nn.PixelShuffle(1)), [image])
last = nn.Conv2d(3, 4, 3).to("cuda:1", memory_format=torch.channels_last)
assert last(image.to("cuda:1").to(memory_format=torch.channels_last)).is_contiguous(memory_format=torch.channels_last)
dropout = nn.Dropout(0.5)
wet = dropout(torch.ones(1000, device="cuda:3", requires_grad=True))
wet.sum().backward()
assert 300 < (wet == 0).sum().item() < 700

tokens = torch.randn(2, 5, 8)
layer = lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)  # noqa: E731
compare(layer, [tokens])
mask = nn.Transformer.generate_square_subsequent_mask(5)
compare(layer, [tokens], lambda m, t: m(t, mask=mask.to(t.device), is_causal=True))
padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
compare(layer, [tokens], lambda m, t: m(t, src_key_padding_mask=padding.to(t.device)))
compare(lambda: nn.MultiheadAttention(8, 2, batch_first=True), [tokens], lambda m, t: m(t, t, t)[0])
compare(lambda: nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True), [tokens], lambda m, t: m(t, t))
torch.manual_seed(0)
encoder = layer()
encoder.eval()
with torch.no_grad():
    expected = encoder(tokens, src_key_padding_mask=padding)
    moved = encoder.to("cuda:2")
    found = moved(tokens.to("cuda:2"), src_key_padding_mask=padding.to("cuda:2"))
    assert torch.allclose(found.cpu()[0], expected[0], atol=1e-5)
    assert found.device.index == 2

q, k, v = (torch.randn(2, 2, 6, 8) for _ in range(3))
expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
moved = [t.to("cuda:1").requires_grad_() for t in (q, k, v)]
found = functional.scaled_dot_product_attention(*moved, is_causal=True)
assert torch.allclose(found.detach().cpu(), expected, atol=1e-5)
found.sum().backward()
assert moved[0].grad.device.index == 1
with sdpa_kernel(SDPBackend.MATH):
    everything = torch.ones(6, 6, dtype=torch.bool, device="cuda:1")
    functional.scaled_dot_product_attention(*moved, attn_mask=everything).sum().backward()
with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
    functional.scaled_dot_product_attention(*(t.half() for t in moved))

logits, target = torch.randn(6, 4), torch.randint(4, (6,))
for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.NLLLoss(), nn.MultiMarginLoss()):
    assert torch.allclose(loss(logits.cuda(), target.cuda()).cpu(), loss(logits, target), atol=1e-5)
wanted = logits.sigmoid()
losses = nn.MSELoss(), nn.SmoothL1Loss(), nn.BCEWithLogitsLoss(), nn.L1Loss(), nn.HuberLoss(), nn.PoissonNLLLoss()
for loss in losses:
    assert torch.allclose(loss(logits.cuda(), wanted.cuda()).cpu(), loss(logits, wanted), atol=1e-5)
log_probs = torch.randn(6, 2, 5).log_softmax(2)
args = (torch.tensor([[1, 2], [3, 4]]), torch.tensor([6, 6]), torch.tensor([2, 2]))
ctc = nn.CTCLoss()(log_probs.cuda().requires_grad_(), args[0].cuda(), *args[1:])
assert torch.allclose(ctc.detach().cpu(), nn.CTCLoss()(log_probs, *args), atol=1e-4)
ctc.backward()
