// Keeps torch's GPU trace from calling Python for events that a check ignores, or that the recorder takes.
//
// While a backward pass is listened to, torch also calls a Python function for each allocation and free, which wastes
// several microseconds each. The receiver of torch's calls is replaced by an interpreter that forwards only the others.
// Only the trace uses this interpreter, so the rest of the interface is not implemented. The set of virtual methods
// differs between torch versions; those that a version lacks become ordinary methods, so none is marked `override`.
//
// Source: c10/core/impl/GPUTrace.h; c10/core/impl/PyInterpreter.h.

#include "trace.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <utility>
#include <vector>

#pragma GCC diagnostic ignored "-Wsuggest-override"

namespace syncheck {
namespace {

using c10::DeviceType;
using c10::TensorImpl;
using c10::impl::GPUTrace;
using c10::impl::PyInterpreter;

std::atomic<const PyInterpreter*> torch_interpreter{nullptr};

thread_local std::vector<std::pair<DeviceType, uintptr_t>> deleted;  // during the collective that runs in this thread

[[noreturn]] void not_implemented() {
  TORCH_INTERNAL_ASSERT(false, "syncheck: only the GPU trace uses this interpreter");
}

struct MutedTrace final : c10::impl::PyInterpreterVTable {
  virtual void trace_gpu_event_creation(DeviceType, uintptr_t) const {}
  virtual void trace_gpu_memory_allocation(DeviceType, uintptr_t) const {}
  virtual void trace_gpu_memory_deallocation(DeviceType, uintptr_t) const {}
  virtual void trace_gpu_stream_creation(DeviceType, uintptr_t) const {}

  virtual void trace_gpu_event_deletion(DeviceType kind, uintptr_t event) const {
    if (is_in_collective()) {
      deleted.emplace_back(kind, event);
    } else {
      (*torch_interpreter.load())->trace_gpu_event_deletion(kind, event);
    }
  }
  virtual void trace_gpu_event_record(DeviceType kind, uintptr_t event, uintptr_t stream) const {
    if (!take_callback(CallbackKind::RECORD, event, stream)) {
      (*torch_interpreter.load())->trace_gpu_event_record(kind, event, stream);
    }
  }
  virtual void trace_gpu_event_wait(DeviceType kind, uintptr_t event, uintptr_t stream) const {
    if (!take_callback(CallbackKind::WAIT, event, stream)) {
      (*torch_interpreter.load())->trace_gpu_event_wait(kind, event, stream);
    }
  }
  virtual void trace_gpu_device_synchronization(DeviceType kind) const {
    if (!take_callback(CallbackKind::SYNC_DEVICE, 0, 0)) {
      (*torch_interpreter.load())->trace_gpu_device_synchronization(kind);
    }
  }
  virtual void trace_gpu_stream_synchronization(DeviceType kind, uintptr_t stream) const {
    if (!take_callback(CallbackKind::SYNC_STREAM, 0, stream)) {
      (*torch_interpreter.load())->trace_gpu_stream_synchronization(kind, stream);
    }
  }
  virtual void trace_gpu_event_synchronization(DeviceType kind, uintptr_t event) const {
    if (!take_callback(CallbackKind::SYNC_EVENT, event, 0)) {
      (*torch_interpreter.load())->trace_gpu_event_synchronization(kind, event);
    }
  }

  virtual std::string name() const { return "syncheck"; }
  virtual void incref(PyObject*) const { not_implemented(); }
  virtual void decref(PyObject*) const { not_implemented(); }
  virtual void decref(PyObject*, bool) const { not_implemented(); }
  virtual bool try_incref(const c10::impl::PyObjectSlot&) const { not_implemented(); }
  virtual size_t refcnt(PyObject*) const { not_implemented(); }
  virtual c10::intrusive_ptr<TensorImpl> detach(const TensorImpl*) const { not_implemented(); }
  virtual void dispatch(const c10::OperatorHandle&, torch::jit::Stack*) const { not_implemented(); }
  virtual void reportErrorCallback(PyObject*, c10::DispatchKey) const { not_implemented(); }
  virtual void python_op_registration_trampoline(
      const c10::OperatorHandle&, c10::DispatchKey, c10::DispatchKeySet, torch::jit::Stack*, bool, bool) const {
    not_implemented();
  }
  virtual void throw_abstract_impl_not_imported_error(std::string, const char*, const char*) const {
    not_implemented();
  }
  virtual void python_dispatcher(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const {
    not_implemented();
  }
  virtual bool is_contiguous(const TensorImpl*, at::MemoryFormat) const { not_implemented(); }
  virtual c10::SymBool sym_is_contiguous(const TensorImpl*, at::MemoryFormat) const { not_implemented(); }
  virtual bool is_strides_like(const TensorImpl*, at::MemoryFormat) const { not_implemented(); }
  virtual bool is_non_overlapping_and_dense(const TensorImpl*) const { not_implemented(); }
  virtual c10::Device device(const TensorImpl*) const { not_implemented(); }
  virtual int64_t dim(const TensorImpl*) const { not_implemented(); }
  virtual c10::IntArrayRef strides(const TensorImpl*) const { not_implemented(); }
  virtual c10::IntArrayRef sizes(const TensorImpl*) const { not_implemented(); }
  virtual c10::SymIntArrayRef sym_sizes(const TensorImpl*) const { not_implemented(); }
  virtual c10::Layout layout(const TensorImpl*) const { not_implemented(); }
  virtual int64_t numel(const TensorImpl*) const { not_implemented(); }
  virtual c10::SymInt sym_numel(const TensorImpl*) const { not_implemented(); }
  virtual c10::SymIntArrayRef sym_strides(const TensorImpl*) const { not_implemented(); }
  virtual c10::SymInt sym_storage_offset(const TensorImpl*) const { not_implemented(); }
  virtual void reset_backward_hooks(const TensorImpl*) const { not_implemented(); }
};

// Never destroyed: torch may be calling it.
const PyInterpreter* muted() {
  static auto* const only = new PyInterpreter(new MutedTrace);
  return only;
}

}  // namespace

void mute_trace(bool value) {
  const PyInterpreter* now = GPUTrace::gpuTraceState.load();
  if (value && now != nullptr && now != muted()) {
    torch_interpreter = now;
    GPUTrace::gpuTraceState = muted();
  } else if (!value && now == muted()) {
    GPUTrace::gpuTraceState = torch_interpreter.load();
  }
}

void forward_deletions() {
  const auto events = std::exchange(deleted, {});
  for (const auto& [kind, event] : events) {
    (*torch_interpreter.load())->trace_gpu_event_deletion(kind, event);
  }
}

bool is_trace_taken() {
  return GPUTrace::haveState && GPUTrace::gpuTraceState.load() == muted();
}

}  // namespace syncheck
