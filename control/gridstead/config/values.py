# SPDX-License-Identifier: Apache-2.0
"""The types of the settings' values, and the base class of their tables."""

from __future__ import annotations

from decimal import Decimal, localcontext
from ipaddress import ip_network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gridstead.domain.jobs.ids import is_address

WEI_PER_CREDIT = 10**18
WEI_DIGITS = 80


def _check_address(value: str) -> str:
    lowered = value.lower()
    if not is_address(lowered):
        raise ValueError("must be an address: 0x and 40 hexadecimal digits")
    return lowered


def _check_endpoint(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536) or "/" in host:
        raise ValueError("must be an endpoint: host:port")
    return value


def _check_url(value: str) -> str:
    message = "must be a URL: http(s)://host:port/path"
    try:
        parts = urlsplit(value)
        is_valid = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise ValueError(message) from error
    if not is_valid or not value.isprintable() or " " in value:
        raise ValueError(message)
    return value


def _check_origin(value: str) -> str:
    parts = urlsplit(_check_url(value))
    if (
        value != f"{parts.scheme}://{parts.netloc}".lower()
        or parts.scheme not in {"http", "https"}
        or "@" in value
    ):
        raise ValueError("must be an origin: http(s)://host:port in lower case, without a path")
    return value


def _check_network(value: str) -> str:
    try:
        ip_network(value)
    except ValueError as error:
        raise ValueError("must be a network: address/length, such as 192.0.2.0/24") from error
    return value


def _form(name: str) -> Any:  # noqa: ANN401 - pydantic declares its FieldInfo so
    """Name the form of a text. docs/reference/settings.md shows the name."""
    return Field(json_schema_extra={"format": name})


Address = Annotated[str, AfterValidator(_check_address), _form("address")]
Url = Annotated[str, AfterValidator(_check_url), _form("URL")]
Origin = Annotated[str, AfterValidator(_check_origin), _form("origin")]
Endpoint = Annotated[str, AfterValidator(_check_endpoint), _form("host:port")]
Network = Annotated[str, AfterValidator(_check_network), _form("network")]
PositiveInt = Annotated[int, Field(gt=0)]
NaturalInt = Annotated[int, Field(ge=0)]
Credits = Annotated[Decimal, Field(ge=0, decimal_places=18, max_digits=40)]


class Settings(BaseModel):
    """A table of a settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def to_wei(amount: Decimal) -> int:
    """Return credits as wei. Nothing is rounded: the settings allow at most 18 decimals."""
    with localcontext(prec=WEI_DIGITS):
        return int(amount * WEI_PER_CREDIT)
