# SPDX-License-Identifier: Apache-2.0
"""Our gRPC servers implement every method in the .proto files.

A generated base class answers UNIMPLEMENTED to a method that its subclass does not implement.
"""

from __future__ import annotations

from inspect import isfunction

import pytest

from gridstead.proto import (
    agent_pb2,
    agent_pb2_grpc,
    logger_pb2,
    logger_pb2_grpc,
    sbatchapi_pb2,
    sbatchapi_pb2_grpc,
    supervisor_pb2,
    supervisor_pb2_grpc,
)
from gridstead.rpc import slurm, users
from gridstead.rpc.definitions import job_definitions
from gridstead.rpc.logs import server

GENERATED = (
    (agent_pb2, agent_pb2_grpc),
    (logger_pb2, logger_pb2_grpc),
    (sbatchapi_pb2, sbatchapi_pb2_grpc),
    (supervisor_pb2, supervisor_pb2_grpc),
)
MODULES_WITH_SERVICERS = (slurm, job_definitions, server, users)


def services():
    """Return the descriptor and the generated servicer class of each service."""
    pairs = []
    for messages, stubs in GENERATED:
        for name, service in messages.DESCRIPTOR.services_by_name.items():
            pairs.append((service, getattr(stubs, f"{name}Servicer")))
    return pairs


SERVICES = services()


def servicers_of(base):
    """Return our subclasses of a generated servicer class."""
    members = []
    for module in MODULES_WITH_SERVICERS:
        members += vars(module).values()
    classes = [member for member in members if isinstance(member, type) and member is not base]
    return [servicer for servicer in classes if issubclass(servicer, base)]


@pytest.mark.parametrize(
    ("service", "base"), SERVICES, ids=[service.full_name for service, _ in SERVICES]
)
def test_every_method_of_a_service_is_implemented(service, base):
    (servicer,) = servicers_of(base)

    assert service.methods
    for method in service.methods:
        assert isfunction(vars(servicer).get(method.name)), method.name


def test_every_proto_file_is_tested(request):
    folder = request.config.rootpath / "control" / "gridstead" / "proto"

    names = {f"gridstead/proto/{path.name}" for path in folder.glob("*.proto")}

    assert names == {messages.DESCRIPTOR.name for messages, _ in GENERATED}
