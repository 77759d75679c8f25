"""What NVML says of the card: clocks, power, temperature, why a clock is held down; driver and CUDA version."""

from __future__ import annotations

from typing import Any

from gemmsim.errors import GemmsimError

#: bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, CUDA 13.0) -> our names
REASONS = {
    0x1: "idle", 0x2: "application_clocks", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake", 0x100: "display_clocks",
}  # fmt: skip


class Nvml:
    """Readings of one card, found by its PCI address. Raises GemmsimError where NVML is not there."""

    def __init__(self, pci: str) -> None:
        try:
            import pynvml
        except ModuleNotFoundError:
            raise GemmsimError(
                "nvidia-ml-py is not installed, which reads clocks and power: pip install 'gemmsim[cuda13]'"
            ) from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._card = pynvml.nvmlDeviceGetHandleByPciBusId(pci)
        except pynvml.NVMLError as error:
            raise GemmsimError(f"NVML does not know the GPU at {pci}: {error}: expected NVIDIA's driver") from None

    def uuid(self) -> str:
        """The card's own name, GPU-..."""
        return str(self._nvml.nvmlDeviceGetUUID(self._card))

    def driver(self) -> str:
        """The driver's version."""
        return str(self._nvml.nvmlSystemGetDriverVersion())

    def read(self) -> dict[str, Any]:
        """Readings by the names of the store's columns, without _before or _after; None where the card gives none."""
        n = self._nvml
        return {
            "sm_clock_hz": self._number(1e6, n.nvmlDeviceGetClockInfo, n.NVML_CLOCK_SM),
            "memory_clock_hz": self._number(1e6, n.nvmlDeviceGetClockInfo, n.NVML_CLOCK_MEM),
            "power_w": self._number(1e-3, n.nvmlDeviceGetPowerUsage),
            "temperature_c": self._number(1.0, n.nvmlDeviceGetTemperature, n.NVML_TEMPERATURE_GPU),
            "throttle": self._reasons(),
        }

    def _number(self, unit: float, ask: Any, *arguments: Any) -> float | None:
        try:
            return unit * float(ask(self._card, *arguments))
        except self._nvml.NVMLError:
            return None

    def _reasons(self) -> str:
        n = self._nvml
        ask = getattr(n, "nvmlDeviceGetCurrentClocksEventReasons", None) or n.nvmlDeviceGetCurrentClocksThrottleReasons
        try:
            return reasons(int(ask(self._card)))
        except n.NVMLError:
            return ""


def reasons(bits: int) -> str:
    """Names of the set bits, a space between."""
    return " ".join(name for bit, name in REASONS.items() if bits & bit)
