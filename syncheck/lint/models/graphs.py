"""CUDA graphs."""

import ast

from syncheck.lint.interp.contexts import stream_context
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.registry import models, models_methods
from syncheck.lint.interp.values import NONE, UNKNOWN, Call, Context, Graph, Stream, Value, truth


@models("torch.cuda.CUDAGraph")
def _new_graph(evaluator: Evaluator, call: Call) -> Value:
    del call
    return evaluator.machine.new_graph()


@models("torch.cuda.graph")
def _graph_context(evaluator: Evaluator, call: Call) -> Value:
    graph, given, machine = call.get("cuda_graph", 0), call.get("stream", 2), evaluator.machine
    if not isinstance(graph, Graph):
        return UNKNOWN
    device = machine.device
    is_known = isinstance(given, Stream) and given.ident
    stream = given if isinstance(given, Stream) and is_known else machine.new_stream(device, call.node, is_made=False)
    context = stream_context(machine, stream, call.node)

    def enter() -> Value:
        machine.sync_device(device, call.node)
        context.enter()
        _capture(machine, graph, call.node, is_begin=True)
        return NONE

    def leave() -> None:
        _capture(machine, graph, call.node, is_begin=False)
        context.leave()

    return Context(enter, leave)


@models("torch.cuda.make_graphed_callables")
def _graphed_callables(evaluator: Evaluator, call: Call) -> Value:
    """Capture a callable, if the program disables the warm-up."""
    if truth(call.get("num_warmup_iters", 2) or UNKNOWN) is False:
        machine = evaluator.machine
        graph, stream = machine.new_graph(), machine.new_stream(machine.device, call.node)
        context = stream_context(machine, stream, call.node)
        context.enter()
        _capture(machine, graph, call.node, is_begin=True)
        machine.launch(stream.ident, "aten::addmm", [], call.node)
        _capture(machine, graph, call.node, is_begin=False)
        context.leave()
    return UNKNOWN


@models_methods(Graph)
def _graph_methods(evaluator: Evaluator, owner: Graph, name: str, call: Call) -> Value | None:
    machine = evaluator.machine
    if name == "replay" and owner.has_captured and not machine.ordering_only:
        stream = machine.current(machine.device)
        if stream:
            machine.session.replay(owner.ident, stream, machine.site(call.node))
            machine.graph_results.replayed(owner, machine.site(call.node))
    elif name in {"capture_begin", "capture_end"}:
        _capture(machine, owner, call.node, is_begin=name == "capture_begin")
    return UNKNOWN


def _capture(machine: Machine, graph: Graph, node: ast.AST, *, is_begin: bool) -> None:
    """Begin or end a capture on the current stream."""
    stream = machine.current(machine.device)
    if machine.ordering_only or not stream:
        return
    if is_begin and not graph.has_captured:
        machine.session.capture_begin(graph.ident, stream, machine.site(node))
        graph.has_captured = True
        machine.graph_results.begin(graph)
    elif not is_begin and machine.session.capturing(stream):
        machine.session.capture_end(graph.ident)
        machine.graph_results.end()
