"""Launches the tasks of a JSON file once each and prints how many: what runs under compute-sanitizer."""

from __future__ import annotations

import json
import sys

from gemmsim.bench.data import make
from gemmsim.bench.device import Device
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import task_from

device = Device(0)
tasks = [task_from(plain) for plain in json.load(open(sys.argv[1]))]  # noqa: SIM115
for task in tasks:
    data = make(device, task.ask, task.number, reference=False)
    prepared = prepare(device, task, data)
    prepared.poison()
    data.poison(device)
    for _ in range(2):
        prepared.launch()
    device.synchronize()
print(f"launched {len(tasks)}")
