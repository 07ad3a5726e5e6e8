// Keeps torch's GPU trace from calling Python for events that a check ignores, or that the recorder takes.
//
// While a backward pass is listened to, torch also calls a Python function for each allocation and free, which wastes
// several microseconds each. The receiver of torch's calls is replaced by an interpreter that forwards only the others.
//
// Source: c10/core/impl/GPUTrace.h.

#include "trace.h"

#include <c10/core/impl/GPUTrace.h>

#include <atomic>
#include <utility>
#include <vector>

#include "forwarding.h"

namespace syncheck {
namespace {

using c10::DeviceType;
using c10::impl::GPUTrace;
using c10::impl::PyInterpreter;

std::atomic<const PyInterpreter*> torch_interpreter{nullptr};
std::atomic<const PyInterpreter*> muted{nullptr};  // created with the first trace; never destroyed, torch may call it

thread_local std::vector<std::pair<DeviceType, uintptr_t>> deleted;  // during the collective that runs in this thread

class MutedTrace final : public Forwarding {
 public:
  using Forwarding::Forwarding;

  void trace_gpu_event_creation(DeviceType, uintptr_t) const override {}
  void trace_gpu_memory_allocation(DeviceType, uintptr_t) const override {}
  void trace_gpu_memory_deallocation(DeviceType, uintptr_t) const override {}
  void trace_gpu_stream_creation(DeviceType, uintptr_t) const override {}

  void trace_gpu_event_deletion(DeviceType kind, uintptr_t event) const override {
    if (is_in_collective()) {
      deleted.emplace_back(kind, event);
    } else {
      Forwarding::trace_gpu_event_deletion(kind, event);
    }
  }
  void trace_gpu_event_record(DeviceType kind, uintptr_t event, uintptr_t stream) const override {
    if (!take_callback(CallbackKind::RECORD, event, stream)) {
      Forwarding::trace_gpu_event_record(kind, event, stream);
    }
  }
  void trace_gpu_event_wait(DeviceType kind, uintptr_t event, uintptr_t stream) const override {
    if (!take_callback(CallbackKind::WAIT, event, stream)) {
      Forwarding::trace_gpu_event_wait(kind, event, stream);
    }
  }
  void trace_gpu_device_synchronization(DeviceType kind) const override {
    if (!take_callback(CallbackKind::SYNC_DEVICE, 0, 0)) {
      Forwarding::trace_gpu_device_synchronization(kind);
    }
  }
  void trace_gpu_stream_synchronization(DeviceType kind, uintptr_t stream) const override {
    if (!take_callback(CallbackKind::SYNC_STREAM, 0, stream)) {
      Forwarding::trace_gpu_stream_synchronization(kind, stream);
    }
  }
  void trace_gpu_event_synchronization(DeviceType kind, uintptr_t event) const override {
    if (!take_callback(CallbackKind::SYNC_EVENT, event, 0)) {
      Forwarding::trace_gpu_event_synchronization(kind, event);
    }
  }
};

}  // namespace

void mute_trace(bool value) {
  const PyInterpreter* now = GPUTrace::gpuTraceState.load();
  if (value && now != nullptr && now != muted) {
    torch_interpreter = now;
    if (muted == nullptr) {
      muted = new PyInterpreter(new MutedTrace(now->vtable_));
    }
    GPUTrace::gpuTraceState = muted.load();
  } else if (!value && now == muted) {
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
  return GPUTrace::haveState && GPUTrace::gpuTraceState.load() == muted;
}

}  // namespace syncheck
