"""Unknown code: heuristics on its name for whether it waits, computes, or leaves work running."""

import ast
import re
from functools import lru_cache

from syncheck.lint import nodes
from syncheck.lint.interp.contents import held_by, tensors_in
from syncheck.lint.interp.values import (
    DERIVED,
    MOVED,
    UNKNOWN,
    Attribute,
    Function,
    Mapping,
    Native,
    Partial,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from syncheck.source.expressions import arguments_of, last_name
from syncheck.source.words import words_of

_WAITING = frozenset(
    """sync synchronize synchronise synchronized synchronizes wait waits barrier join flush finish finalize finalise
    drain block nms suppression""".split()
)
"""Words in the names of functions that wait.

Source: torchvision, `nms` and its callers: the boxes that are left are counted on the host.
"""
_OF_STREAMS = frozenset({"wait_stream", "wait_event"})
"""Waits of a stream, which do not block the host."""
_NOT_WAITING = re.compile(r"^os\.path\.|block_|_block|(^|[._])no_?sync|to_?sync\b")
_COMPUTING = frozenset(
    """model net network module layer encoder decoder backbone criterion forward backward fwd bwd kernel attention attn
    matmul gemm mm conv unet vae transformer discriminator loss""".split()
)
_NETWORKS = frozenset(
    """model net network module layer encoder decoder backbone unet vae mlp ffn expert experts norm proj
    projection embedding transform transforms augment augmentation normalize normalizer""".split()
)
"""Words in the names of networks, their layers, and transforms of images."""
_AUTOENCODERS = frozenset("vae ae autoencoder vqvae vqgan taesd taehv".split())
"""Words in the names of autoencoders of images: `vae.decode(latents)` runs a network."""
_CODING = frozenset({"decode", "encode"})
_TOKENIZERS = frozenset("tokenizer tokeniser tok processor".split())
_EXPORTING = frozenset("export pil imsave imwrite mimsave mimwrite".split())
_ON_THE_HOST = frozenset({"np", "numpy", "pil"})
"""Types of results that image processors of diffusers return on the host: diffusers/image_processor.py."""
_KERNELS = frozenset({"kernel", "kernels", "triton"})
"""Words in the names of functions that Triton compiles."""
_FUNCTIONS = frozenset("f fn func function op step".split())
"""Names of functions that a benchmark is given to run."""
_COLLATING = frozenset("collate collater collator tokenize tokenizer".split())
_EVALUATING = frozenset(
    """eval evaluate evaluation evaluator test validate validation predict generate accuracy acc metric metrics score
    checkpoint""".split()
)
_HOST_ONLY = frozenset(
    """print info debug warning error log append add update write extend insert format isinstance len save dump put push
    remove register len shape size numel dim item tolist numpy cpu file disk json csv""".split()
)
_OBSERVERS = frozenset(
    """callback checkpointer collector logger meter monitor plotter printer profiler recorder reporter saver timer
    tokenizer tracker visualizer writer""".split()
)
"""Words in the names of classes whose objects look at what they are called with, on the host."""
_CODE = (Function, Partial, Native)
_HOLDING_TENSORS = frozenset({Attribute, Mapping, Sequence, Tensor})
"""Kinds of values that are searched for tensors."""
_FLAGS = frozenset("barrier barriers flag flags signal signals semaphore semaphores lock locks".split())
"""Words in the names of tensors that kernels wait for."""
_TEXTS = frozenset(
    """prompt prompts text texts sentence sentences query queries question questions message messages path paths file
    files filename url urls name""".split()
)
"""Words in the names of what pipelines are given."""
_STORING = frozenset(
    """add append appendleft attach enqueue extend hold insert keep push put register set setattr setdefault store
    update""".split()
)
"""Words in the names of functions that store their arguments."""
_KEEPING = frozenset(
    """then register add set hook hooks callback callbacks sort sorted map filter partial jit compile wraps submit
    append namespace""".split()
)
"""Words in the names of functions that keep their arguments for later."""

_GPUS = frozenset({"device", "cuda", "gpu"})
_MOVING = frozenset({"to", "move", "send", "copy", "put", "transfer", "upload"})
_MOVES = frozenset({"tocuda", "togpu", "todevice"})
_BACK = frozenset({"cpu", "host", "from", "is", "has", "get"})


@lru_cache(maxsize=4096)
def may_wait(path: str) -> bool:
    """Return whether a function waits for something, judging by its name."""
    name = path.rpartition(".")[2]
    if _NOT_WAITING.search(path):
        return name.startswith("block_until")
    return bool(words_of(name) & _WAITING)


@lru_cache(maxsize=4096)
def may_evaluate(name: str) -> bool:
    """Return whether a function computes numbers that the host reads, judging by its name: `evaluate`."""
    return bool(words_of(name) & _EVALUATING)


@lru_cache(maxsize=4096)
def says_moved(name: str) -> bool:
    """Return whether a function moves its arguments to a GPU, judging by its name: `move_batch_to_device`."""
    words = words_of(name)
    return bool(words & _MOVES or (words & _GPUS and words & _MOVING)) and not words & _BACK


def waits_in(method: ast.AST) -> set[str]:
    """Return the names of the calls in a method or a lambda that may wait."""
    called = {last_name(node.func) for node in nodes.walk(method) if isinstance(node, ast.Call)}
    return {name for name in called if may_wait(name)}


def host_waits_in(method: nodes.Method) -> bool:
    """Return whether the host may wait in a method."""
    return bool(waits_in(method) - _OF_STREAMS)


def may_order(body: list[ast.stmt]) -> bool:
    """Return whether some statements contain calls that wait, judging by their names."""
    return any(_names_wait(statement) for statement in body)


@nodes.once
def _names_wait(statement: ast.AST) -> bool:
    calls = (node for node in nodes.walk(statement) if isinstance(node, ast.Call))
    return any(may_wait(called_name(call)) for call in calls)


def takes_code(values: list[Value], node: ast.AST) -> bool:
    """Return whether a function gets another one that it may call and wait for: `do_bench(lambda: f(x))`."""
    has_code = any(isinstance(value, _CODE) or _is_waiting_function(value) for value in values)
    return has_code and not words_of(called_name(node)) & _KEEPING


def _is_waiting_function(value: Value) -> bool:
    """Return whether a value is a function of a library that waits: `torch.cuda.synchronize`."""
    return isinstance(value, Symbol) and may_wait(value.path.rpartition(".")[2])


def takes_flag(node: ast.AST) -> bool:
    """Return whether an argument's name says that the called code may wait for it: a flag that a kernel reads."""
    given = arguments_of(node) if isinstance(node, ast.Call) else []
    return any(words_of(nodes.text(value)) & _FLAGS for value in given)


def makes_object(node: ast.AST) -> bool:
    """Return whether the called object is a class, judging by its name: `Batch(output)`."""
    return called_name(node)[:1].isupper()


def makes_network(node: ast.AST) -> bool:
    """Return whether the called object is a class whose objects compute when they are called, judging by its name."""
    return makes_object(node) and not words_of(called_name(node)) & _OBSERVERS


def may_be_tensor(value: Value | None) -> bool:
    """Return whether a value may be a GPU tensor because unknown code derived it from one."""
    while isinstance(value, Attribute):
        value = value.owner
    return value is DERIVED


def is_moved(value: Value | None, depth: int = 2) -> bool:
    """Return whether a value was moved to a device that may be a GPU, is part of something that was, or contains it."""
    while isinstance(value, Attribute):
        value = value.owner
    if depth and isinstance(value, Sequence | Mapping):
        return any(is_moved(item, depth - 1) for item in held_by(value))
    return value is MOVED


def gets_moved(given: list[Value]) -> bool:
    """Return whether a function gets something that was moved to a device. An attribute of it may be a number."""
    return any(is_moved(value) for value in given if not isinstance(value, Attribute))


def derived(*values: Value) -> Value:
    """Return an unknown value that is computed from some values, or is a part of one."""
    if any(map(may_be_tensor, values)):
        return DERIVED
    return MOVED if any(map(is_moved, values)) else UNKNOWN


def may_be_read(value: Value) -> bool:
    """Return whether the host may have to wait for a value in order to use it as a number or a text."""
    return may_be_tensor(value) or value is MOVED


def is_on_gpu(value: Value) -> bool:
    """Return whether a value is or may be a GPU tensor, or contains one."""
    if value.__class__ is Value:
        return value is DERIVED
    if value.__class__ not in _HOLDING_TENSORS:
        return False
    return may_be_tensor(value) or any(tensor.block.device is not None for tensor in tensors_in(value))


def stores(node: ast.AST) -> bool:
    """Return whether an unknown function keeps its arguments in an object, judging by its name."""
    return not _STORING.isdisjoint(words_of(called_name(node)))


def called_name(node: ast.AST) -> str:
    """Return the last name of the called object; "" if there is none."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        owner = function.value
        if function.attr == "step":  # only an optimizer's: a scheduler's `step` does nothing on the GPU
            words = words_of(nodes.text(owner))
            return "step" if words & {"optimizer", "optim", "opt", "scaler"} else ""
        return function.attr
    if isinstance(function, ast.Subscript):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def launches_kernel(node: ast.AST) -> bool:
    """Return whether a call launches a kernel of Triton, which only enqueues it: `add_kernel[grid](x, y)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
        return False
    called = nodes.text(node.func.value).rpartition(".")[2]
    return bool(words_of(called) & _KERNELS) and not takes_flag(node)


def computes(node: ast.AST) -> bool:
    """Return whether the called function computes, judging by its name only. A class makes an object that may."""
    name = called_name(node)
    is_named = name in _FUNCTIONS or (not name[:1].isupper() and bool(words_of(name) & _COMPUTING))
    return is_named or _is_autoencoder(node) or (name == "grad" and nodes.text(node).startswith("torch.autograd."))


def _is_autoencoder(node: ast.AST) -> bool:
    """Return whether a call runs an autoencoder, judging by names: `self.vae.decode(latents)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return bool(words_of(name) & _CODING and words_of(last_name(owner)) & _AUTOENCODERS)
        case _:
            return False


def is_network(node: ast.AST) -> bool:
    """Return whether the called object is a network, a layer or a transform, judging by its name: these rarely wait."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="forward")):
            return bool(words_of(last_name(owner)) & _NETWORKS)
        case _:
            return bool(words_of(called_name(node)) & _NETWORKS) or _is_autoencoder(node)


def exports(node: ast.AST) -> bool:
    """Return whether a call turns images into files or into arrays of the host: `f(images, output_type="np")`."""
    given = node.keywords if isinstance(node, ast.Call) else []
    kinds = (word.value.value for word in given if word.arg == "output_type" and isinstance(word.value, ast.Constant))
    return bool(words_of(called_name(node)) & _EXPORTING) or any(kind in _ON_THE_HOST for kind in kinds)


def reads_tokens(node: ast.AST) -> bool:
    """Return whether a call turns tokens into a text, for which the host reads them: `tokenizer.decode(ids)`.

    Source:
        transformers/tokenization_utils_base.py, `decode`.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="decode" | "batch_decode" | "convert_ids_to_tokens")):
            return bool(words_of(last_name(owner)) & _TOKENIZERS)
        case _:
            return False


def makes_batch(node: ast.AST) -> bool:
    """Return whether the called function makes a batch of samples on the host, judging by its name."""
    return bool(words_of(called_name(node)) & _COLLATING)


def runs_network(node: ast.AST) -> bool:
    """Return whether a call runs a network on tensors, judging by names. With a text, much of it runs on the host."""
    if not isinstance(node, ast.Call) or not is_network(node):
        return False
    given = arguments_of(node)
    written = [*map(nodes.text, given), *(keyword.arg or "" for keyword in node.keywords)]
    is_literal = any(isinstance(value, ast.Constant | ast.JoinedStr) for value in given)
    return not is_literal and not any(words_of(text) & _TEXTS for text in written)


def is_on_host(node: ast.AST) -> bool:
    """Return whether the called function runs nothing on a GPU, judging by its name."""
    return bool(words_of(called_name(node)) & _HOST_ONLY)
