# SPDX-License-Identifier: Apache-2.0
"""A JSON-RPC server with a synthetic grid, for benchmarks with more jobs than anvil can hold.

The server has the views and the events that the meta-scheduler reads. There are no transactions.
The method ``bench_advance`` adds a block: some jobs are requested, the given matches are made, and
the oldest running jobs end. A matched job runs at once.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer

from eth_abi.abi import decode, encode

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.job_queues import ProviderJobQueues
from gridstead.adapters.chain.job_repository import NEVER, JobRepository
from gridstead.adapters.chain.meta_scheduler import MetaSchedulerContract
from gridstead.adapters.chain.money import Constants, Credit
from gridstead.adapters.chain.provider_manager import ProviderManager
from gridstead.domain.jobs.lifecycle import JobState

CREDIT = 10**18
CONTRACTS = Contracts(
    chain_id=31337,
    version="3.0.0",
    meta_scheduler=MetaSchedulerContract("0x" + "01" * 20),
    jobs=JobRepository("0x" + "02" * 20),
    providers=ProviderManager("0x" + "03" * 20),
    queues=ProviderJobQueues("0x" + "04" * 20),
    constants=Constants("0x" + "05" * 20),
    credit=Credit("0x" + "06" * 20),
)
BLOCK_S = 1
FIRST_TIME_S = 1_700_000_000
ESCROW = 100 * CREDIT
PRICE_PER_MIN = CREDIT
NO_ADDRESS = "0x" + "00" * 20
CUSTOMERS = 200
CLASSES = 50
NODES = 4
CPUS_PER_NODE = 64
WORD = 32  # the size of a value in the ABI, bytes
CONSTANTS = {"claimJobTimeout": 100, "startTimeout": 10**6, "settleGrace": 10**6}


class SyntheticGrid:
    """The jobs, the providers and the blocks.

    Args:
        provider_count: The number of approved providers.
    """

    def __init__(self, provider_count: int) -> None:
        self.jobs: dict[int, dict] = {}
        self.logs: list[list[dict]] = [[]]  # by block
        self.running: deque[int] = deque()
        self._views = {}
        self._templates: dict[tuple, tuple[bytes, int]] = {}
        for contract, names in (
            ("JobRepository", ("getMany", "termsMany", "billUntilMany")),
            ("ProviderManager", ("getProvider", "isValidForScheduling")),
            ("Constants", tuple(CONSTANTS)),
        ):
            for name in names:
                function = artifact(contract).functions[name]
                self._views[function.selector] = function
        self._begin_block()
        for number in range(1, provider_count + 1):
            address = f"0x{number:040x}"
            self._emit("ProviderManager", "ProviderApproved", address)

    def advance(self, requests: int, matches: list[tuple[int, str]], ends: int) -> None:
        """Add a block."""
        self._begin_block()
        for _ in range(requests):
            self._request(len(self.jobs) + 1)
        for number, provider in matches:
            self._run(number, provider)
        for _ in range(min(ends, len(self.running))):
            self._end(self.running.popleft())

    def answer(self, method: str, parameters: list) -> object:
        """Return the answer to a request."""
        if method == "bench_advance":
            return self.advance(**parameters[0])
        if method == "eth_getBlockByNumber":
            height = parameters[0]
            number = len(self.logs) - 1 if height == "latest" else int(height, 16)
            return _block(number) if number < len(self.logs) else None
        if method == "eth_getLogs":
            return self._logs(parameters[0])
        assert method == "eth_call", method
        data = bytes.fromhex(parameters[0]["data"][2:])
        function = self._views[data[:4]]
        return "0x" + self._view(function, decode(function.inputs, data[4:])).hex()

    def _logs(self, log_filter: dict) -> list[dict]:
        if "blockHash" in log_filter:
            return self.logs[int(log_filter["blockHash"], 16) - 1]
        first, last = int(log_filter["fromBlock"], 16), int(log_filter["toBlock"], 16)
        return [log for logs in self.logs[first : last + 1] for log in logs]

    def _view(self, function, arguments) -> bytes:
        if function.name == "getMany":
            return _array([self._encoded_record(int.from_bytes(number)) for number in arguments[0]])
        if function.name == "termsMany":
            values = [self._terms(int.from_bytes(number)) for number in arguments[0]]
        elif function.name == "billUntilMany":
            values = [NEVER] * len(arguments[0])
        elif function.name == "getProvider":
            values = _provider(arguments[0])
        elif function.name == "isValidForScheduling":
            values = True
        else:
            values = CONSTANTS[function.name]
        return encode(function.outputs, [values])

    def _record(self, number: int) -> tuple:
        job = self.jobs[number]
        script = f"{number:020d}".encode()
        definition = (0, 100, 1 + number % CLASSES, 1, script, 0, [], [])
        start = job["start"]
        end = start + 60 if job["state"] is JobState.FINISHED else 0
        return (
            number.to_bytes(32),
            job["state"],
            job["customer"],
            job["provider"],
            definition,
            (ESCROW, PRICE_PER_MIN if end else 0, 0, False),
            (FIRST_TIME_S, start, end, 0, job["block"], 0),
            b"job",
            False,
            b"",
            0,
        )

    def _encoded_record(self, number: int) -> bytes:
        """Return the encoded struct. Only the first request of each job's state is slow."""
        job = self.jobs[number]
        key = (job["state"], number % CLASSES, bool(job["start"]))
        record_type = artifact("JobRepository").functions["getMany"].outputs[0].removesuffix("[]")
        script = f"{number:020d}".encode()
        if key not in self._templates:
            # Without the first word, which is the offset of the struct.
            template = encode([record_type], [self._record(number)])[WORD:]
            self._templates[key] = template, template.index(script)
        template, script_start = self._templates[key]
        record = bytearray(template)
        record[script_start : script_start + len(script)] = script
        end = job["start"] + 60 if job["state"] is JobState.FINISHED else 0
        words = {
            0: number,
            2: int(job["customer"], 16),
            3: int(job["provider"], 16),
            10: job["start"],
            11: end,
            13: job["block"],
        }
        for index, value in words.items():
            record[index * WORD : (index + 1) * WORD] = value.to_bytes(WORD)
        return bytes(record)

    def _terms(self, number: int) -> tuple:
        job = self.jobs[number]
        price = PRICE_PER_MIN if job["start"] else 0
        parties = job["state"], job["customer"], job["provider"]
        return (*parties, price, ESCROW, job["start"], job["start"], job["block"], False, False)

    def _begin_block(self) -> None:
        self.logs.append([])

    @property
    def _block_number(self) -> int:
        return len(self.logs) - 1

    def _request(self, number: int) -> None:
        customer = f"0x{10**9 + number % CUSTOMERS:040x}"
        self.jobs[number] = {
            "state": JobState.PENDING,
            "customer": customer,
            "provider": NO_ADDRESS,
            "start": 0,
            "block": self._block_number,
        }
        self._emit("Credit", "Transfer", customer, CONTRACTS.meta_scheduler.address, ESCROW)
        self._emit("MetaScheduler", "NewJobRequestEvent", number.to_bytes(32), customer)

    def _run(self, number: int, provider: str) -> None:
        job = self.jobs[number]
        assert job["state"] is JobState.PENDING, number
        job["provider"] = provider
        job["start"] = FIRST_TIME_S + BLOCK_S * self._block_number
        self._move(number, JobState.META_SCHEDULED)
        self._move(number, JobState.SCHEDULED)
        job_id = number.to_bytes(32)
        definition = self._record(number)[4]
        self._emit(
            "MetaScheduler", "ClaimJobEvent", job["customer"], provider, job_id, 60, definition
        )
        self._move(number, JobState.RUNNING)
        self.running.append(number)

    def _end(self, number: int) -> None:
        self._move(number, JobState.FINISHED)
        for payee in (self.jobs[number]["provider"], self.jobs[number]["customer"]):
            escrow_account = CONTRACTS.meta_scheduler.address
            self._emit("Credit", "Transfer", escrow_account, payee, ESCROW // 2)

    def _move(self, number: int, state: JobState) -> None:
        job = self.jobs[number]
        arguments = number.to_bytes(32), job["state"], state
        self._emit("JobRepository", "JobTransitionEvent", *arguments)
        job["state"], job["block"] = state, self._block_number

    def _emit(self, contract: str, name: str, *arguments) -> None:
        event = artifact(contract).events[name]
        indexed_count = len(event.indexed_types)
        topics = [event.topic]
        for abi_type, value in zip(event.indexed_types, arguments[:indexed_count], strict=True):
            topics.append("0x" + encode([abi_type], [value]).hex())
        addresses = {
            "MetaScheduler": CONTRACTS.meta_scheduler.address,
            "JobRepository": CONTRACTS.jobs.address,
            "ProviderManager": CONTRACTS.providers.address,
            "Credit": CONTRACTS.credit.address,
        }
        logs = self.logs[-1]
        log = {
            "address": addresses[contract],
            "topics": topics,
            "data": "0x" + encode(event.data_types, arguments[indexed_count:]).hex(),
            "blockNumber": hex(self._block_number),
            "logIndex": hex(len(logs)),
        }
        logs.append(log)


def _array(records: list[bytes]) -> bytes:
    """Return the encoding of an array of encoded structs of dynamic size."""
    offsets = []
    offset = len(records) * WORD
    for record in records:
        offsets.append(offset.to_bytes(WORD))
        offset += len(record)
    head = WORD.to_bytes(WORD) + len(records).to_bytes(WORD)
    return head + b"".join(offsets) + b"".join(records)


def _block(number: int) -> dict[str, str]:
    # The hash of a block is its number plus 1, so that no hash is 0.
    return {
        "number": hex(number),
        "hash": f"0x{number + 1:064x}",
        "parentHash": f"0x{number:064x}",
        "timestamp": hex(FIRST_TIME_S + BLOCK_S * number),
    }


def _provider(address: str) -> tuple:
    hardware = NODES, [0] * NODES, [CPUS_PER_NODE] * NODES, [10**6] * NODES
    prices = CREDIT // 10, CREDIT // 100, CREDIT // 10**6
    return address, hardware, prices, [], False


def main() -> None:
    """Serve on a free port, and print the port."""
    grid = SyntheticGrid(int(sys.argv[1]))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            requests = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = []
            for request in requests:
                result = grid.answer(request["method"], request["params"])
                answers.append({"jsonrpc": "2.0", "id": request["id"], "result": result})
            body = json.dumps(answers).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None:
            """Do not log the requests."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
