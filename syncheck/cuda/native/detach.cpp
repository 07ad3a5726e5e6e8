// Detaches tensors in C++ where torch would call the dispatch mode.
//
// When a backward pass unpacks a tensor that may be needed by a hook, c10 calls the interpreter of the current dispatch
// mode to detach it, which takes about 20 us, for an operator that uses no memory. The functions of torch's interpreter are
// replaced by functions that forward all calls, except for such tensors. The set of functions differs between torch
// versions: one that a version lacks is never called, so none is marked `override`.
//
// Source: c10/core/TensorImpl.cpp, `shallow_copy_and_detach_core`; c10/core/impl/PyInterpreter.h.

#include "detach.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>
#include <torch/csrc/PyInterpreter.h>

#include <type_traits>
#include <utility>

#pragma GCC diagnostic ignored "-Wsuggest-override"

namespace syncheck {
namespace {

using c10::DeviceType;
using c10::TensorImpl;
using c10::impl::PyInterpreter;

// Define a method that forwards to the method of the same name, if the base class has one.
#define FORWARD(result, name, parameters, ...)                                                   \
  template <typename T, typename... A>                                                           \
  static auto call_##name(int, const T& original, A&&... arguments)                              \
      -> decltype(original.name(std::forward<A>(arguments)...)) {                                \
    return original.name(std::forward<A>(arguments)...);                                         \
  }                                                                                              \
  template <typename T, typename... A>                                                           \
  static result call_##name(long, const T&, A&&...) {                                            \
    TORCH_INTERNAL_ASSERT(false, "syncheck: this version of torch does not call this function"); \
  }                                                                                              \
  virtual result name parameters const {                                                         \
    return call_##name(0, *original_ __VA_OPT__(, ) __VA_ARGS__);                                \
  }

class Forwarding final : public c10::impl::PyInterpreterVTable {
 public:
  explicit Forwarding(const c10::impl::PyInterpreterVTable* original) : original_(original) {}

  virtual c10::intrusive_ptr<TensorImpl> detach(const TensorImpl* tensor) const {
    if (!may_detach(tensor)) {
      return original_->detach(tensor);
    }
    c10::impl::ExcludeDispatchKeyGuard without_mode(c10::DispatchKey::Python);
    return tensor->shallow_copy_and_detach(c10::VariableVersion(0), /*allow_tensor_metadata_change=*/false);
  }

  FORWARD(std::string, name, ())
  FORWARD(void, incref, (PyObject * object), object)
  FORWARD(void, reportErrorCallback, (PyObject * callback, c10::DispatchKey key), callback, key)
  FORWARD(bool, try_incref, (const c10::impl::PyObjectSlot& slot), slot)
  FORWARD(size_t, refcnt, (PyObject * object), object)
  FORWARD(void, dispatch, (const c10::OperatorHandle& op, torch::jit::Stack* stack), op, stack)
  FORWARD(
      void, python_op_registration_trampoline,
      (const c10::OperatorHandle& op, c10::DispatchKey key, c10::DispatchKeySet keys, torch::jit::Stack* stack,
       bool with_keyset, bool with_op),
      op, key, keys, stack, with_keyset, with_op)
  FORWARD(
      void, throw_abstract_impl_not_imported_error, (std::string name, const char* module, const char* context),
      std::move(name), module, context)
  FORWARD(
      void, python_dispatcher,
      (const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack), op, keys, stack)
  FORWARD(bool, is_contiguous, (const TensorImpl* tensor, at::MemoryFormat format), tensor, format)
  FORWARD(c10::SymBool, sym_is_contiguous, (const TensorImpl* tensor, at::MemoryFormat format), tensor, format)
  FORWARD(bool, is_strides_like, (const TensorImpl* tensor, at::MemoryFormat format), tensor, format)
  FORWARD(bool, is_non_overlapping_and_dense, (const TensorImpl* tensor), tensor)
  FORWARD(c10::Device, device, (const TensorImpl* tensor), tensor)
  FORWARD(int64_t, dim, (const TensorImpl* tensor), tensor)
  FORWARD(c10::IntArrayRef, strides, (const TensorImpl* tensor), tensor)
  FORWARD(c10::IntArrayRef, sizes, (const TensorImpl* tensor), tensor)
  FORWARD(c10::SymIntArrayRef, sym_sizes, (const TensorImpl* tensor), tensor)
  FORWARD(c10::Layout, layout, (const TensorImpl* tensor), tensor)
  FORWARD(int64_t, numel, (const TensorImpl* tensor), tensor)
  FORWARD(c10::SymInt, sym_numel, (const TensorImpl* tensor), tensor)
  FORWARD(c10::SymIntArrayRef, sym_strides, (const TensorImpl* tensor), tensor)
  FORWARD(c10::SymInt, sym_storage_offset, (const TensorImpl* tensor), tensor)
  FORWARD(void, reset_backward_hooks, (const TensorImpl* tensor), tensor)
  FORWARD(void, trace_gpu_event_creation, (DeviceType kind, uintptr_t event), kind, event)
  FORWARD(void, trace_gpu_event_deletion, (DeviceType kind, uintptr_t event), kind, event)
  FORWARD(void, trace_gpu_event_record, (DeviceType kind, uintptr_t event, uintptr_t stream), kind, event, stream)
  FORWARD(void, trace_gpu_event_wait, (DeviceType kind, uintptr_t event, uintptr_t stream), kind, event, stream)
  FORWARD(void, trace_gpu_memory_allocation, (DeviceType kind, uintptr_t address), kind, address)
  FORWARD(void, trace_gpu_memory_deallocation, (DeviceType kind, uintptr_t address), kind, address)
  FORWARD(void, trace_gpu_stream_creation, (DeviceType kind, uintptr_t stream), kind, stream)
  FORWARD(void, trace_gpu_device_synchronization, (DeviceType kind), kind)
  FORWARD(void, trace_gpu_stream_synchronization, (DeviceType kind, uintptr_t stream), kind, stream)
  FORWARD(void, trace_gpu_event_synchronization, (DeviceType kind, uintptr_t event), kind, event)

  // Its signature differs between versions.
  virtual void decref(PyObject* object) const {
    forward_decref(0, *original_, object);
  }
  virtual void decref(PyObject* object, bool has_pyobj_slot) const {
    forward_decref(0, *original_, object, has_pyobj_slot);
  }

 private:
  template <typename T, typename... A>
  static auto forward_decref(int, const T& original, A... arguments) -> decltype(original.decref(arguments...)) {
    return original.decref(arguments...);
  }
  template <typename T, typename... A>
  static void forward_decref(long, const T&, A...) {
    TORCH_INTERNAL_ASSERT(false, "syncheck: this version of torch does not call this function");
  }

  const c10::impl::PyInterpreterVTable* original_;
};

}  // namespace

void take_detach() {
  PyInterpreter* interpreter = getPyInterpreter();
  static const Forwarding* const forwarding = new Forwarding(interpreter->vtable_);  // never destroyed
  interpreter->vtable_ = forwarding;
}

}  // namespace syncheck
