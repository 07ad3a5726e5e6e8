// Inputs and results of operators. Included by recorder.cpp only.

#pragma once

#include "blocks.h"
#include "events.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

// Keys that the mode excludes while an operator runs: those above Python, except the ones left to the operator itself.
const DispatchKeySet BELOW_PYTHON = DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::Python);
const DispatchKeySet HANDLED =
    (DispatchKeySet(DispatchKeySet::FULL) ^ BELOW_PYTHON)
        .remove(DispatchKey::ZeroTensor)
        .remove(DispatchKey::Conjugate)
        .remove(DispatchKey::Negative);

// The same for an operator that autograd has not processed yet.
const DispatchKeySet BELOW_SNAPSHOT =
    DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::PythonTLSSnapshot).remove(DispatchKey::Python);
const DispatchKeySet MODES = DispatchKeySet(DispatchKey::Python) | DispatchKeySet(DispatchKey::PythonTLSSnapshot);
uint64_t keys_after(DispatchKey key) {
  return DispatchKeySet(DispatchKeySet::FULL_AFTER, key).raw_repr() & ~c10::full_backend_mask;
}

// The keys that an operator passes between PythonTLSSnapshot and Python, other than autograd: autocast, vmap,
// functionalization.
const uint64_t BETWEEN =
    (keys_after(DispatchKey::PythonTLSSnapshot) & ~keys_after(DispatchKey::Tracer)) |
    (keys_after(DispatchKey::ADInplaceOrView) & ~keys_after(DispatchKey::Python) &
     ~DispatchKeySet(DispatchKey::Python).raw_repr());

enum class Level { ABOVE_AUTOGRAD, BELOW_AUTOGRAD };

bool is_plain(const c10::TensorImpl* tensor) {
  return !tensor->key_set().has(DispatchKey::Python) && !tensor->key_set().has(DispatchKey::ZeroTensor) &&
      tensor->layout() == c10::kStrided && tensor->has_storage();
}

template <typename Visit>
bool each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return !tensor.defined() || visit(tensor);
  }
  if (value.isTensorList() || value.isOptionalTensorList() || value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined() && !visit(item.toTensor())) {
        return false;
      }
    }
  }
  return true;
}

// Return whether nothing is active that needs the mode. These sizes may be read without the GIL.
//
// With several streams, whole backward passes are listened to, but the operators recorded here trigger no callbacks.
bool is_simple() {
  return Py_SIZE(state->running.ptr()) == 0 && (state->has_multiple_streams || Py_SIZE(state->inside.ptr()) == 0);
}

// Return whether a tensor is in a pinned buffer that a stream may be using.
bool is_in_buffer(const at::Tensor& tensor) {
  if (PyDict_GET_SIZE(state->buffers.ptr()) == 0 || !tensor.is_cpu()) {
    return false;
  }
  GilGuard lock;
  py::object key = py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(tensor.storage().unsafeGetStorageImpl()));
  return PyDict_Contains(state->buffers.ptr(), key.ptr()) != 0;
}

PyObject* top_mode() {
  const auto& mode = c10::impl::TorchDispatchModeTLS::get_stack_at(0);
  return mode->ptr(&mode->pyinterpreter());
}

bool is_only_mode() {
  return c10::impl::TorchDispatchModeTLS::stack_len() == 1 && Py_TYPE(top_mode()) == state->mode;
}

bool is_recordable_case(const Plan& plan, const Stack& stack, size_t begin) {
  switch (plan.kind) {
    case Kind::ORDINARY:
    case Kind::COMPOSITE:
    case Kind::COLLECTIVE:
      return true;
    case Kind::ITEM:
      return stack[begin].toTensor().is_cpu();
    case Kind::COPY:
      return stack[begin].toTensor().get_device() == stack[begin + 1].toTensor().get_device();
    case Kind::FOREACH_COPY: {
      auto targets = stack[begin].toListRef(), sources = stack[begin + 1].toListRef();
      for (size_t index = 0; index < targets.size() && index < sources.size(); index++) {
        if (targets[index].toTensor().get_device() != sources[index].toTensor().get_device()) {
          return false;
        }
      }
      return targets.size() == sources.size();
    }
    case Kind::TO_COPY: {
      const c10::IValue& wanted = stack[begin + 3];
      if (wanted.isNone()) {
        return true;
      }
      c10::Device device = wanted.toDevice(), now = stack[begin].toTensor().device();
      return device.type() == now.type() && (!device.has_index() || device.index() == now.index());
    }
  }
  return false;
}

// Return the session's id of a device's current stream. While the default stream is the only one, return 0 for any
// other stream. With several streams, the caller holds the GIL.
int64_t stream_of(c10::DeviceIndex device, bool has_multiple_streams) {
  c10::impl::VirtualGuardImpl guard(state->kind);
  const c10::Stream stream = guard.getStream(c10::Device(state->kind, device));
  if (!has_multiple_streams) {
    return stream.id() == 0 ? state->stream : 0;
  }
  auto known = state->streams.find(stream);
  if (known != state->streams.end()) {
    return known->second;
  }
  int64_t ident = state->callbacks.attr("current_stream")(static_cast<int64_t>(device)).cast<int64_t>();
  // the CPU stands in for a GPU in tests, and has no streams
  if (state->kind != c10::DeviceType::CPU && stream.id() != PER_THREAD) {
    state->streams.emplace(stream, ident);
  }
  return ident;
}

// Return the index of a tensor's device; a device type with a single device has no index.
c10::DeviceIndex index_of(const at::Tensor& tensor) {
  return tensor.device().has_index() ? tensor.device().index() : 0;
}

// Collect an operator's input memory and its device; return whether all of it is on one device, which must be that of
// the only stream while there is just one.
bool take_inputs(
    const Plan& plan, const Stack& stack, size_t begin, bool has_multiple_streams, Inputs& inputs,
    c10::DeviceIndex& device) {
  device = has_multiple_streams ? -1 : state->device;
  for (const Argument& argument : plan.arguments) {
    bool is_here = each_tensor(stack[begin + argument.position], [&](const at::Tensor& tensor) {
      if (tensor.device().type() != state->kind || tensor.numel() == 0) {
        return true;
      }
      inputs.push_back({tensor, argument.is_write});
      if (device < 0) {
        device = index_of(tensor);
      }
      return index_of(tensor) == device;
    });
    if (!is_here) {
      return false;
    }
  }
  return true;
}

// Return whether all input memory of an operator passes a test.
template <typename Test>
bool each_block(const Inputs& inputs, Test test) {
  return std::all_of(inputs.begin(), inputs.end(), [&test](const Input& given) {
    const Block* block = block_of(given.tensor);
    return block == nullptr || test(*block);
  });
}

// Return whether an operator's accesses to its input memory on `stream` cannot race.
bool is_private(const Inputs& inputs, int64_t stream) {
  return each_block(inputs, [stream](const Block& block) { return is_private(block, stream); });
}

// Return whether a stream comes after all other uses of an operator's input memory.
bool is_after_others(const Inputs& inputs, int64_t stream) {
  return each_block(inputs, [stream](const Block& block) { return is_after_others(block, stream); });
}

// Prepare all input memory of an operator; see `pass_on`.
bool pass_on_all(const Inputs& inputs, int64_t stream) {
  return std::all_of(
      inputs.begin(), inputs.end(), [stream](const Input& given) { return pass_on(given.tensor, stream); });
}

// Make a stream the owner of all input memory of an operator, which has been looked up before.
void own_all(const Inputs& inputs, int64_t stream) {
  for (const Input& given : inputs) {
    if (Block* block = find(given.tensor.storage().unsafeGetStorageImpl())) {
      block->home = stream;
      block->position = state->clocks.position(stream);
    }
  }
}

Accesses accesses_to(const Inputs& inputs) {
  Accesses accesses;
  for (const Input& given : inputs) {
    if (Block* block = block_of(given.tensor)) {
      const int64_t allocation = block->allocation;
      accesses.push_back({allocation, view_of(given.tensor), given.is_write});
    }
  }
  return accesses;
}

// Return the device of an operator's new results; -1 if none is on a GPU, MIXED if there are several devices.
constexpr c10::DeviceIndex MIXED = -2;
c10::DeviceIndex device_of_results(const Stack& stack, size_t n_results) {
  c10::DeviceIndex device = -1;
  for (size_t index = stack.size() - n_results; index < stack.size(); index++) {
    each_tensor(stack[index], [&](const at::Tensor& tensor) {
      if (tensor.device().type() == state->kind) {
        device = device < 0 || device == index_of(tensor) ? index_of(tensor) : MIXED;
      }
      return device != MIXED;
    });
  }
  return device;
}

// Record new results on a stream, and the writes that fill them.
void take_results(
    const Plan& plan, const Stack& stack, size_t n_results, int64_t stream, int64_t site, Accesses& accesses) {
  for (size_t index = stack.size() - n_results; index < stack.size(); index++) {
    each_tensor(stack[index], [&](const at::Tensor& tensor) {
      if (tensor.device().type() != state->kind || !tensor.has_storage() || tensor.storage().data() == nullptr) {
        return true;
      }
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      if (find(storage) != nullptr) {
        if (plan.touches && tensor.storage_offset() != 0) {  // one of several results in the same block
          accesses.push_back({find(storage)->allocation, view_of(tensor), true});
        }
        return true;
      }
      int64_t allocation = next_allocation();
      keep_new(tensor.storage(), allocation, stream);
      state->items.push_back(
          {ItemKind::ALLOCATION, nullptr, allocation, static_cast<int64_t>(tensor.storage().nbytes()), stream, site, 0, 0});
      if (plan.touches) {
        int64_t n_bytes = static_cast<int64_t>(tensor.nbytes());  // a new tensor fills its storage, or its beginning
        accesses.push_back({allocation, tensor.storage_offset() ? view_of(tensor) : extent_view(0, n_bytes), true});
      }
      return true;
    });
  }
}

void add_launch(const Plan& plan, int64_t stream, int64_t site, const Accesses& accesses) {
  state->items.push_back({ItemKind::LAUNCH, plan.name, 0, 0, stream, site, state->accesses.size(), accesses.size()});
  state->accesses.insert(state->accesses.end(), accesses.begin(), accesses.end());
  state->n_recorded++;
}

void run_below(Level level, const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  if (level == Level::ABOVE_AUTOGRAD) {
    c10::impl::ExcludeDispatchKeyGuard modes(MODES);
    op.redispatchBoxed(keys & BELOW_SNAPSHOT, stack);
  } else {
    c10::impl::ExcludeDispatchKeyGuard above(HANDLED);
    op.redispatchBoxed(keys & BELOW_PYTHON, stack);
  }
}

bool needs_gradient(const Stack& stack, size_t begin) {
  if (!c10::GradMode::is_enabled()) {
    return false;
  }
  for (size_t index = begin; index < stack.size(); index++) {
    if (!each_tensor(stack[index], [](const at::Tensor& tensor) { return !tensor.requires_grad(); })) {
      return true;
    }
  }
  return false;
}

// Return whether autograd only records the operator, without calling a hook or another operator, as it would for the
// tangents of forward-mode differentiation, of which torch has one level at a time.
bool is_only_recorded_by_autograd(bool is_mutable, DispatchKeySet keys, const Stack& stack, size_t begin) {
  return (keys.raw_repr() & BETWEEN) == 0 && !at::SavedTensorDefaultHooks::get_hooks() &&
      torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr &&
      !(is_mutable && needs_gradient(stack, begin));
}

}  // namespace
