# SPDX-License-Identifier: Apache-2.0
"""The types of values in settings files, and the base class of tables."""

from __future__ import annotations

from decimal import Decimal, localcontext
from ipaddress import ip_network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gridstead.domain.jobs.billing import WEI_PER_CREDIT
from gridstead.domain.jobs.ids import is_address
from gridstead.domain.labels.keys import BENCHMARK_REPORT_URL, provider_labels
from gridstead.errors import InvalidInput

WEI_DIGITS = 80  # precision of the conversion from credits to wei


def _check_address(address: str) -> str:
    lower_case_address = address.lower()
    if not is_address(lower_case_address):
        raise ValueError("must be an address: 0x and 40 hexadecimal digits")
    return lower_case_address


def check_endpoint(endpoint: str) -> str:
    """Return an endpoint. Raises ValueError if it is not ``host:port``."""
    host, colon, port = endpoint.rpartition(":")
    has_host = bool(host and colon) and "/" not in host
    has_port = port.isdigit() and 0 < int(port) < 65536
    if not has_host or not has_port:
        raise ValueError("must be an endpoint: host:port")
    return endpoint


def _check_url(url: str) -> str:
    message = "must be a URL: http(s)://host:port/path"
    try:
        parts = urlsplit(url)
        has_valid_port = parts.port is None or parts.port > 0
        is_valid = bool(parts.hostname) and has_valid_port
    except ValueError as error:
        raise ValueError(message) from error
    if not is_valid or not url.isprintable() or " " in url:
        raise ValueError(message)
    return url


def _check_origin(origin: str) -> str:
    if origin == "*":
        return origin
    parts = urlsplit(_check_url(origin))
    is_origin = origin == f"{parts.scheme}://{parts.netloc}".lower()
    is_web = parts.scheme in {"http", "https"}
    has_forbidden_character = "@" in origin or "*" in origin
    if not is_origin or not is_web or has_forbidden_character:
        raise ValueError(
            "must be * or an origin: http(s)://host:port in lower case, without a path"
        )
    return origin


def _check_network(network: str) -> str:
    try:
        ip_network(network)
    except ValueError as error:
        raise ValueError("must be a network: address/length, such as 192.0.2.0/24") from error
    return network


def check_labels(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels of a provider. Raises ValueError if a key or a value is not permitted."""
    try:
        provider_labels(labels)
    except InvalidInput as error:
        raise ValueError(error.message) from error
    return labels


def _check_report_url(url: str) -> str:
    parts = urlsplit(_check_url(url))
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("must have no user name, password or fragment")
    try:
        provider_labels({BENCHMARK_REPORT_URL: url})
    except InvalidInput as error:
        raise ValueError(error.message) from error
    return url


def _format(name: str) -> Any:  # noqa: ANN401 - pydantic.Field returns Any
    """Return a field with a named format. docs/reference/settings.md shows the name."""
    return Field(json_schema_extra={"format": name})


Address = Annotated[str, AfterValidator(_check_address), _format("address")]
Url = Annotated[str, AfterValidator(_check_url), _format("URL")]
ReportUrl = Annotated[str, AfterValidator(_check_report_url), _format("HTTPS URL")]
Origin = Annotated[str, AfterValidator(_check_origin), _format("origin")]
Endpoint = Annotated[str, AfterValidator(check_endpoint), _format("host:port")]
Network = Annotated[str, AfterValidator(_check_network), _format("network")]
PositiveInt = Annotated[int, Field(gt=0)]
NaturalInt = Annotated[int, Field(ge=0)]
Credits = Annotated[Decimal, Field(ge=0, decimal_places=18, max_digits=40)]


class Settings(BaseModel):
    """A table of a settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def to_wei(amount: Decimal) -> int:
    """Return an amount of credits in wei, which is exact for amounts with at most 18 decimals."""
    with localcontext(prec=WEI_DIGITS):
        return int(amount * WEI_PER_CREDIT)
