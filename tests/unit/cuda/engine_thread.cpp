// A thread without Python frames, like those of the autograd engine, that issues collectives and uses events.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <ATen/ThreadLocalState.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/GPUTrace.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <exception>
#include <thread>
#include <vector>

namespace {

// (1, event, stream) is a record, (2, event, stream) a wait, (3, stream, 0) waits for a stream, (4, event, 0) is the end of
// an event.
using Calls = std::vector<std::vector<int64_t>>;

void trace(int64_t kind, int64_t first, int64_t second) {
  const auto* receiver = c10::impl::GPUTrace::get_trace();
  if (receiver == nullptr) {
    return;
  }
  const auto type = c10::DeviceType::CUDA;
  if (kind == 1) {
    (*receiver)->trace_gpu_event_record(type, first, second);
  } else if (kind == 2) {
    (*receiver)->trace_gpu_event_wait(type, first, second);
  } else if (kind == 3) {
    (*receiver)->trace_gpu_stream_synchronization(type, first);
  } else {
    (*receiver)->trace_gpu_event_deletion(type, first);
  }
}

// A collective that makes these calls; those of torch depend on a backend.
std::vector<at::Tensor> allreduce(std::vector<at::Tensor> tensors, std::vector<int64_t> calls, bool fails) {
  TORCH_CHECK(!fails, "the collective failed");
  for (size_t index = 0; index + 2 < calls.size(); index += 3) {
    trace(calls[index], calls[index + 1], calls[index + 2]);
  }
  return tensors;
}

template <typename Run>
void in_thread(Run run) {
  const at::ThreadLocalState state;
  std::exception_ptr error;
  {
    pybind11::gil_scoped_release release;
    std::thread thread([&]() {
      at::ThreadLocalStateGuard guard(state);
      try {
        run();
      } catch (...) {
        error = std::current_exception();
      }
    });
    thread.join();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

void reduce(const std::vector<at::Tensor>& tensors, const std::vector<int64_t>& calls, bool fails) {
  in_thread([&]() {
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow("c10d::allreduce_", "engine_thread");
    torch::jit::Stack stack{c10::IValue(tensors), c10::IValue(calls), c10::IValue(fails)};
    op.callBoxed(stack);
  });
}

void call(const Calls& calls) {
  in_thread([&]() {
    for (const auto& each : calls) {
      trace(each[0], each[1], each[2]);
    }
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(c10d, library) {
  library.def("allreduce_.engine_thread(Tensor[] tensors, int[] calls, bool fails) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(c10d, CPU, library) {
  library.impl("allreduce_.engine_thread", allreduce);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("reduce", &reduce);
  module.def("call", &call);
}
