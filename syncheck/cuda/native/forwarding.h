// An interpreter that forwards all calls of torch to another one, except for those that a derived class answers.
//
// The set of functions differs between torch versions. One that a version lacks is never called, so none is marked
// `override` here.
//
// Source: c10/core/impl/PyInterpreter.h.

#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace syncheck {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsuggest-override"

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

class Forwarding : public c10::impl::PyInterpreterVTable {
 public:
  explicit Forwarding(const c10::impl::PyInterpreterVTable* original) : original_(original) {}

  FORWARD(std::string, name, ())
  FORWARD(c10::intrusive_ptr<c10::TensorImpl>, detach, (const c10::TensorImpl* tensor), tensor)
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
  FORWARD(bool, is_contiguous, (const c10::TensorImpl* tensor, at::MemoryFormat format), tensor, format)
  FORWARD(c10::SymBool, sym_is_contiguous, (const c10::TensorImpl* tensor, at::MemoryFormat format), tensor, format)
  FORWARD(bool, is_strides_like, (const c10::TensorImpl* tensor, at::MemoryFormat format), tensor, format)
  FORWARD(bool, is_non_overlapping_and_dense, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::Device, device, (const c10::TensorImpl* tensor), tensor)
  FORWARD(int64_t, dim, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::IntArrayRef, strides, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::IntArrayRef, sizes, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::SymIntArrayRef, sym_sizes, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::Layout, layout, (const c10::TensorImpl* tensor), tensor)
  FORWARD(int64_t, numel, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::SymInt, sym_numel, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::SymIntArrayRef, sym_strides, (const c10::TensorImpl* tensor), tensor)
  FORWARD(c10::SymInt, sym_storage_offset, (const c10::TensorImpl* tensor), tensor)
  FORWARD(void, reset_backward_hooks, (const c10::TensorImpl* tensor), tensor)
  FORWARD(void, trace_gpu_event_creation, (c10::DeviceType kind, uintptr_t event), kind, event)
  FORWARD(void, trace_gpu_event_deletion, (c10::DeviceType kind, uintptr_t event), kind, event)
  FORWARD(void, trace_gpu_event_record, (c10::DeviceType kind, uintptr_t event, uintptr_t stream), kind, event, stream)
  FORWARD(void, trace_gpu_event_wait, (c10::DeviceType kind, uintptr_t event, uintptr_t stream), kind, event, stream)
  FORWARD(void, trace_gpu_memory_allocation, (c10::DeviceType kind, uintptr_t address), kind, address)
  FORWARD(void, trace_gpu_memory_deallocation, (c10::DeviceType kind, uintptr_t address), kind, address)
  FORWARD(void, trace_gpu_stream_creation, (c10::DeviceType kind, uintptr_t stream), kind, stream)
  FORWARD(void, trace_gpu_device_synchronization, (c10::DeviceType kind), kind)
  FORWARD(void, trace_gpu_stream_synchronization, (c10::DeviceType kind, uintptr_t stream), kind, stream)
  FORWARD(void, trace_gpu_event_synchronization, (c10::DeviceType kind, uintptr_t event), kind, event)

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

#undef FORWARD
#pragma GCC diagnostic pop

}  // namespace syncheck
