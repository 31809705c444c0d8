"""The training step that bench/step.cpp times, in PyTorch: bf16 autocast, fused AdamW, SDPA or plain linear attention."""
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

# Retrieval is 32 pairs: both sequences go through one encoder, in one batch.
SHAPES = [("listops", 32, 2000), ("text", 32, 4096), ("retrieval", 32, 4096), ("image", 256, 1024), ("pathfinder", 256, 1024)]
WIDTH, HEADS, LAYERS, INNER = 64, 2, 2, 128


class Attention(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.linear = linear

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if not self.linear:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            q, k = F.elu(q) + 1, F.elu(k) + 1
            sums = k.transpose(-1, -2) @ v
            y = (q @ sums) / (q @ k.sum(-2).unsqueeze(-1) + 1e-6)
        return self.out(y.transpose(1, 2).reshape(b, n, WIDTH))


class Block(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixer = Attention(linear)
        self.feed = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, x):
        x = x + self.mixer(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Classifier(nn.Module):
    def __init__(self, linear, length, pairs):
        super().__init__()
        self.pairs = pairs
        self.words = nn.Embedding(256, WIDTH)
        self.places = nn.Parameter(torch.randn(length, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*[Block(linear) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Sequential(nn.Linear(4 * WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, 10)) if pairs else nn.Linear(WIDTH, 10)

    def forward(self, tokens):
        x = self.blocks(self.words(tokens) + self.places)
        pooled = self.norm(x).mean(1)
        if self.pairs:
            u, v = pooled.chunk(2)
            pooled = torch.cat([u, v, u * v, u - v], -1)
        return self.head(pooled)


def timed(run, count=9, steps=10):
    for _ in range(5):
        run()
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / steps * 1e3)
    return statistics.median(times)


def measure(linear, batch, length, pairs):
    model = Classifier(linear, length, pairs).cuda()
    tokens = torch.randint(1, 256, (2 * batch if pairs else batch, length), device="cuda")
    targets = torch.randint(0, 10, (batch,), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(tokens), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    eager = timed(step)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return eager, timed(graph.replay)


print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
for name, batch, length in SHAPES:
    for linear in (False, True):
        eager, graph = measure(linear, batch, length, name == "retrieval")
        print(f"{name:<12}{'linear' if linear else 'softmax':<12}{eager:>12.3f}{graph:>12.3f}", flush=True)
