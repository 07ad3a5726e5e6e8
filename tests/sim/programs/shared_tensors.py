"""GPU tensors travel between processes, which share their memory."""

import torch
import torch.multiprocessing as mp


def consume(requests, answers, done) -> None:
    x = requests.get()
    part = requests.get()
    assert x.device == torch.device("cuda", 0)
    assert (x.tolist(), part.tolist(), part.storage_offset()) == ([0, 1, 2, 3], [1, 2], 1)
    x.add_(10)
    torch.cuda.synchronize()
    answers.put("changed")
    (model,) = requests.get()
    assert model.weight.is_cuda
    assert model.weight.requires_grad
    answer = model(torch.ones(2, device="cuda")).detach().to("cuda:1")
    answers.put(answer)
    assert requests.get().shape == (0, 3)
    done.wait()  # the memory of `answer` is this process's


def main() -> None:
    context = mp.get_context("spawn")
    requests, answers, done = context.Queue(), context.Queue(), context.Event()
    consumer = context.Process(target=consume, args=(requests, answers, done))
    consumer.start()
    x = torch.arange(4, device="cuda")
    requests.put(x)
    requests.put(x[1:3])
    assert answers.get() == "changed"
    assert x.tolist() == [10, 11, 12, 13]
    layer = torch.nn.Linear(2, 1).cuda()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1)
    requests.put(torch.nn.Sequential(layer))
    answer = answers.get()
    assert (answer.device.index, answer.tolist()) == (1, [3.0])
    requests.put(torch.empty(0, 3, device="cuda"))
    del answer
    done.set()
    consumer.join()
    assert consumer.exitcode == 0


if __name__ == "__main__":
    main()
