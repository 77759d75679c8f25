"""Workloads: the GEMMs that a transformer's pass or a convolution comes to, and what they add up to."""

from __future__ import annotations

from gemmsim.workload.conv import Conv
from gemmsim.workload.model import Experts, Transformer
from gemmsim.workload.passes import PHASES, Pass, Product, linears, products

__all__ = ["PHASES", "Conv", "Experts", "Pass", "Product", "Transformer", "linears", "products"]
