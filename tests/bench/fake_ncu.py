#!/usr/bin/env python3
"""Stands in for Nsight Compute: says in the child's place what it would have launched, and prints what ncu prints.

FAKE_NCU is a JSON object: "refuse" (a sentence to print), "unknown" (a metric that is none), "kernels" (of each task),
"die" (the N of the task that the child dies at), "calls" (a file that each call's arguments are appended to). Counter
number i of kernel number j has the value 1000 * i + j.
"""

import json
import os
import sys
from itertools import pairwise

told = json.loads(os.environ.get("FAKE_NCU", "{}"))
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)")
    sys.exit(0)
value = dict(pairwise(arguments))
metrics, log = value["--metrics"].split(","), open(value["--log-file"], "w")  # noqa: SIM115
tasks_at, out_at, _ = arguments[-3:]
if "calls" in told:
    with open(told["calls"], "a") as calls:
        calls.write(json.dumps(arguments) + "\n")
log.write("==PROF== Connected to process 4242 (/usr/bin/python3.12)\n")
bad = [m for m in metrics if m.partition(".")[0] == told.get("unknown")]
if bad:
    log.write(f"==ERROR== Failed to find metric regex:^{told['unknown']}\\.(sum|avg)$\n")
    sys.exit(1)
if "refuse" in told:
    log.write(told["refuse"] + "\n")
head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC", *metrics]  # fmt: skip
lines = [head, [""] * 11 + ["ns" if m == "gpu__time_duration.sum" else "byte" for m in metrics]]


def line(name, grid, j):
    cells = [str(len(lines) - 2), "4242", "python3.12", "127.0.0.1", name, "1", "7", "(256, 1, 1)", f"({grid}, 1, 1)",
             "0", "9.0"]  # fmt: skip
    lines.append([*cells, *(f"{1000 * i + j:,}" for i in range(len(metrics)))])


with open(tasks_at) as given, open(out_at, "w") as out:
    for text in given:
        task = json.loads(text)
        out.write(json.dumps({"start": task["number"]}) + "\n")
        if task["ask"]["n"] == told.get("die"):
            break
        out.write(
            json.dumps({"done": task["number"], "row": {"status": "ok", "reason": "", "blocks_per_sm": 2}}) + "\n"
        )
        line("spin", task["number"] + 1, 0)
        for j in range(told.get("kernels", 1)):
            line("gemm" if j == 0 else "reduce", 64, j + 1)
if "refuse" not in told:
    log.write("==PROF== Disconnected from process 4242\n")
    log.writelines(",".join(f'"{cell}"' for cell in row) + "\n" for row in lines)
log.close()
