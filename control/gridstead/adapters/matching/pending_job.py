# SPDX-License-Identifier: Apache-2.0
"""The schema of the queue view's answer about one pending job.

Keys that a newer queue view adds are ignored. ``rpc/explanation.py`` writes the answer.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXT = 10_000  # characters

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0)]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class NearestMiss(_Answer):
    """What is missing at the provider that is closest to what the job needs."""

    quantity: Text = Field(
        description="What is compared: `gpus`, `node-cpus`, `node-memory-mb`, `tasks`, "
        "`queue-places`, `escrow-wei`, `free-s` or `price-per-min-wei`. The unit is in the name."
    )
    needed: Count = Field(description="What is needed: see the table of the quantities.")
    available: Count = Field(description="What there is: see the table of the quantities.")
    provider: Text = Field(description="The address of the provider.")
    reserved_for: Text | None = Field(
        description="The job for which the room is reserved. Only for the quantity `free-s`."
    )


class ObstacleCount(_Answer):
    """A condition that prevents the match, and how many providers it excludes.

    Each provider counts once, at the first condition that it does not satisfy.
    """

    code: Text = Field(description="The name of the condition: see the table of the obstacles.")
    text: Text = Field(description="The condition in words, as `gridstead job why` prints it.")
    providers: Count = Field(description="How many providers it excludes.")
    nearest: NearestMiss | None = Field(
        description="The nearest miss. Null if the condition is not a matter of numbers."
    )


class UnmetLabel(_Answer):
    """A label or condition of the job that providers do not satisfy."""

    requirement: Text = Field(description="For example `region=eu` or `gflops>=1000`.")
    missing: Count = Field(description="How many providers do not have the label.")
    other: Count = Field(description="How many providers have another value.")
    values: list[Text] = Field(
        description="At most three of these values, the nearest number first.", max_length=100
    )


class JobsAhead(_Answer):
    """An estimate of how many pending jobs are matched before this one."""

    own: Count = Field(description="The older pending jobs of the same customer.")
    others: Count = Field(description="The jobs of other customers whose turn is earlier.")


class Move(_Answer):
    """The last change that made the start of the reservation later by more than a minute."""

    from_at: int = Field(description="The earlier start, Unix seconds.")
    to_at: int = Field(description="The later start, Unix seconds.")
    cause: Text = Field(description="What changed.")


class ExpectedStart(_Answer):
    """The reservation of the job."""

    provider: Text = Field(description="The address of the provider that keeps the room.")
    start_at: int = Field(
        description="When the room is expected to be free, Unix seconds. The job may start "
        "earlier, or at another provider."
    )
    last_move: Move | None = Field(description="Null if there was no such change.")


class PendingJob(_Answer):
    """Why a pending job waits, as of one block."""

    job: Text = Field(description="The number of the job: 0x and 64 hexadecimal digits.")
    cause: Text = Field(description="The cause: see the table of the causes.")
    reason: Text = Field(description="The reason in one line, the same as in `/pending`.")
    obstacles: list[ObstacleCount] = Field(
        description="How many providers each condition excludes. First the providers that are not "
        "suitable, then those that may get the job later."
    )
    labels: list[UnmetLabel] = Field(
        description="The labels and conditions that exclude providers, in the order of the job."
    )
    labels_compared: Count = Field(
        description="With how many providers the labels and conditions were compared."
    )
    ahead: JobsAhead | None = Field(
        description="Null for the causes `malformed-script-id`, `being-matched` and "
        "`match-not-stored`."
    )
    expected_start: ExpectedStart | None = Field(
        description="The reservation. Null if the job has none."
    )
    block: Count = Field(description="The number of the block of the decision.")
    block_time: Count = Field(description="The time of this block, Unix seconds.")
