"""What does a worker process cost, for a small picture, beyond decoding it in this process?

The floor is admission in this process and then 2 milliseconds of waiting: what containment may
cost. Below 1 it costs less.
"""

from __future__ import annotations

import io
import time

from PIL import Image

from attachstore import AdmissionPolicy
from attachstore.admission import admit
from attachstore.admission.pool import ProcessPool
from attachstore.attachment import BytesContent
from benchmarks.measure import Plan, Question, Row, interleave, kibibytes

ALLOWED_S = 0.002

QUESTION = Question(
    text="admission in a worker / in-process + 2 ms",
    floor="admission in this process, then 2 ms",
    target=1.0,
    ours_durable="nothing is stored",
    floor_durable="nothing is stored",
    group="others",
)


async def measure(plan: Plan) -> list[Row]:
    pool = ProcessPool(processes_max=1)
    policy = AdmissionPolicy()
    rows: list[Row] = []
    try:
        for side in (32, 128, 256):
            data = picture(side)
            content = BytesContent(data)

            async def ours(content: BytesContent = content) -> None:
                admit(content, policy, decoders=pool)

            async def floor(content: BytesContent = content) -> None:
                admit(content, policy)
                deadline_s = time.perf_counter() + ALLOWED_S
                while time.perf_counter() < deadline_s:
                    pass

            ratios = await interleave(ours, floor, rounds=plan.rounds(300))
            rows.append(Row(question=QUESTION, size=kibibytes(len(data)), ratios=ratios))
    finally:
        pool.close()
    return rows


def picture(side: int) -> bytes:
    """A noisy PNG: about one byte for each pixel."""
    target = io.BytesIO()
    Image.effect_noise((side, side), 80).save(target, "PNG")
    return target.getvalue()
