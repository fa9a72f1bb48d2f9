"""The three clouds of Allpass as its tables give them, for ``gpuplan list providers``."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.simkit.allpass.parameters import Allpass, StartUp

SOURCE = "Allpass, Tables 2 and 3"
AS_OF = "2025"


@dataclass(frozen=True, slots=True)
class Provider:
    """One kind of cloud as the simulator knows it.

    Attributes:
        name: the company.
        kind: serverless, marketplace or conventional.
        gpu_type: the GPU that price and start-up time are of.
        usd_per_gpu_h: price, or its range, as people read it.
        startup: time from request to use.
    """

    name: str
    kind: str
    gpu_type: str
    usd_per_gpu_h: str
    startup: StartUp

    def row(self) -> tuple[str, ...]:
        """Return name, kind, GPU, price, start-up, source and date."""
        startup = f"{self.startup.mean_s:g} +- {self.startup.sd_s:g}"
        return (self.name, self.kind, self.gpu_type, self.usd_per_gpu_h, startup, SOURCE, AS_OF)


def _providers() -> tuple[Provider, ...]:
    """Return the defaults of the simulator, so that list and simulation cannot differ."""
    usual = Allpass()
    offers = usual.marketplace_prices
    ladder = f"{offers[0]:.2f} to {offers[-1]:.2f}, {len(offers)} offers"
    return (
        Provider(
            "modal",
            "serverless",
            "A100-80GB",
            f"{usual.serverless_price:.2f}",
            usual.serverless_startup,
        ),
        Provider("vast.ai", "marketplace", "A100-80GB", ladder, usual.marketplace_startup),
        Provider(
            "lambda",
            "conventional",
            "A100-80GB",
            f"{usual.conventional_price:.2f}",
            usual.conventional_startup,
        ),
    )


PROVIDERS = _providers()
