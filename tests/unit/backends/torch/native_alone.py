"""What a server does with exported files, by torch alone: ``native_alone.py FOLDER``.

It writes what it found to ``found.pt``: answers, and the messages of errors.
"""

import json
import shutil
import sys
import threading

import torch


def attempt(function, *arguments):
    """Return tensors, or the text of the error."""
    try:
        found = function(*arguments)
    except (RuntimeError, torch.jit.Error) as error:
        return str(error)
    return list(found) if isinstance(found, tuple) else [found]


def load(folder, name):
    """Return a file's module, its interface, and its operator."""
    told = {"hbconv.json": ""}
    before = attempt(torch.jit.load, f"{folder}/{name}.pt")
    torch.ops.load_library(f"{folder}/{name}_op.so")
    module = torch.jit.load(f"{folder}/{name}.pt", _extra_files=told)
    namespace = next(
        node.kind().partition("::")[0]
        for node in module.program.inlined_graph.nodes()
        if node.kind().startswith("hbconv_")
    )
    return before, module, json.loads(told["hbconv.json"]), getattr(torch.ops, namespace).answers


def by_threads(module, given, count):
    found = [None] * count

    def call(number):
        for _ in range(20):
            found[number] = module(*given)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def try_texts(folder, given):
    """Call the model that reads numbers and texts, and then its operator."""
    x, colour, deck = (given[name] for name in ("x", "colour", "deck"))
    unknown, module, interface, operator = load(folder, "mixed")
    found = {"unknown operator": unknown, "interface": interface}
    for count in (0, 1, 2, 203):
        found[count] = attempt(module, x[:count], colour[:count], deck[:count])
    many = [5000 // len(x) + 1, 1]
    big = (x.repeat(many), colour * many[0], deck * many[0])
    found["many"] = attempt(module, *big)
    found["odd texts"] = attempt(module, x[:5], ["re", "", "日", "re\0d", "R" * 999], deck[:5])
    found["not contiguous"] = attempt(module, x.t().contiguous().t(), colour, deck)
    found["threads"] = by_threads(module, big, 8)
    found["lengths"] = attempt(module, x[:3], colour[:1], deck[:3])
    found["float32"] = attempt(module, x.float(), colour, deck)
    return found | {"operator": try_operator(operator, x)}


def try_operator(operator, x):
    """Call the operator without the wrapper: it trusts nothing."""
    codes = torch.zeros((3, 2), dtype=torch.int64)
    return {
        "dtype": attempt(operator, x[:3].float(), codes),
        "width": attempt(operator, x[:3, :1], codes),
        "dimensions": attempt(operator, x[0], codes),
        "lengths": attempt(operator, x[:3], codes[:1]),
        "sparse": attempt(operator, x[:3].to_sparse(), codes),
        "device": attempt(operator, x[:3].to("meta"), codes),
        "meta": attempt(operator, x[:3].to("meta"), codes.to("meta")),
        "expanded": attempt(operator, x[:1].expand(3, 2), codes),
        **{str(code): attempt(operator, x[:3], codes + code) for code in (-2, 99, 2**32, -(2**63))},
    }


def try_numbers(folder, numbers):
    """Call the model of numbers, refuse some, and load its library again."""
    _, linear, _, _ = load(folder, "linear")
    found = {"linear": attempt(linear, numbers)}
    bad = numbers.repeat(40, 1)
    bad[7000, 5] = float("nan")
    found["refused"] = attempt(linear, bad)
    shutil.copy(f"{folder}/linear_op.so", f"{folder}/copy.so")
    torch.ops.load_library(f"{folder}/copy.so")
    torch.ops.load_library(f"{folder}/exported_op2.so")
    exported = torch.export.load(f"{folder}/exported.pt2").module()
    found["exported"] = {count: attempt(exported, numbers[:count]) for count in (0, 1, 203)}
    found["exported refused"] = attempt(exported, bad)
    return found


def main(folder):
    """Try all, and write what was found."""
    given = torch.load(f"{folder}/given.pt")
    found = try_texts(folder, given) | try_numbers(folder, given["numbers"])
    torch.save(found, f"{folder}/found.pt")


if __name__ == "__main__":
    main(sys.argv[-1])
