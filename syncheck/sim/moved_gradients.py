"""Differentiable moves between devices: gradients are sent back to the tensor's original device."""

from typing import Any, Protocol

import torch


class Shim(Protocol):
    """Interface of the object that moves tensors."""

    copies: Any

    def index(self, tensor: torch.Tensor) -> int:
        """Return the index of a tensor's device."""

    def move(self, tensor: torch.Tensor, target: int, *, non_blocking: bool, copy: bool, **kwargs: Any) -> torch.Tensor:
        """Return a tensor on another device, with autograd."""


class _DeviceCopy(torch.autograd.Function):
    """A copy to another device, whose gradient is copied back the same way."""

    @staticmethod
    def forward(source: torch.Tensor, shim: Shim, target: int, non_blocking: bool, kwargs: Any) -> Any:
        return shim.copies.transfer(source, target, non_blocking=non_blocking, **kwargs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        del output
        source, shim = inputs[:2]
        ctx.set_materialize_grads(False)
        ctx.shim, ctx.dtype, ctx.origin = shim, source.dtype, shim.index(source)
        ctx.move = inputs[2:]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        del info
        return _DeviceCopy.apply(*args), in_dims[0]  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        target, non_blocking, kwargs = ctx.move
        return ctx.shim.move(tangents[0], target, non_blocking=non_blocking, copy=False, **kwargs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        back = grads[0]
        if back is not None:
            kwargs = {"dtype": ctx.dtype} if back.dtype != ctx.dtype else {}
            back = ctx.shim.move(back, ctx.origin, non_blocking=False, copy=False, **kwargs)
        return back, None, None, None, None


class _ReturningGradient(torch.autograd.Function):
    """A tensor about to be copied to another device; the gradient of the copy is sent back to its own device.

    Source:
        torch/csrc/autograd/functions/tensor.cpp, `CopyBackwards::apply`: the gradient goes to the source's device.
    """

    @staticmethod
    def forward(source: torch.Tensor, shim: Shim) -> Any:
        del shim
        return source.view_as(source)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        del output
        source, shim = inputs
        ctx.set_materialize_grads(False)
        ctx.shim, ctx.origin = shim, shim.index(source)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        del info
        return _ReturningGradient.apply(*args), in_dims[0]  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        del ctx
        return tangents[0].view_as(tangents[0])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        back = grads[0]
        return None if back is None else ctx.shim.move(back, ctx.origin, non_blocking=False, copy=False), None


class _PinnedCopy(torch.autograd.Function):
    """A copy in pinned memory, whose gradient is passed back unchanged.

    Source:
        tools/autograd/derivatives.yaml, `_pin_memory`.
    """

    @staticmethod
    def forward(source: torch.Tensor, shim: Shim) -> Any:
        return shim.copies.pin(source)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        del inputs, output
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        del ctx
        return tangents[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        del ctx
        return grads[0], None


def device_copy(tensor: torch.Tensor, shim: Shim, target: int, *, non_blocking: bool, kwargs: Any) -> Any:
    """Return a copy of a tensor on another device."""
    return _DeviceCopy.apply(tensor, shim, target, non_blocking, kwargs)  # type: ignore[no-untyped-call]  # as above


def returning_gradient(tensor: torch.Tensor, shim: Shim) -> Any:
    """Return a tensor to be copied into a tensor on another device, with its gradient sent back."""
    return _ReturningGradient.apply(tensor, shim)  # type: ignore[no-untyped-call]  # as above


def pinned_copy(tensor: torch.Tensor, shim: Shim) -> Any:
    """Return a copy of a tensor in pinned memory."""
    return _PinnedCopy.apply(tensor, shim)  # type: ignore[no-untyped-call]  # as above
