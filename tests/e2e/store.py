# SPDX-License-Identifier: Apache-2.0
"""A web server and an S3 store for jobs of the lab, in this process.

They listen on the machine's end of the lab's network. moto is the S3 store; it refuses what its
user did not sign, and keeps its state per process: one store at a time.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator

import boto3
import httpx
from botocore.client import BaseClient
from moto.core import enable_iam_authentication
from moto.server import ThreadedMotoServer
from werkzeug import Request, Response
from werkzeug.serving import make_server

REGION, BUCKET, USER = "lab-1", "bucket", "customer"
POLICY = {
    "Version": "2012-10-17",
    "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
}


class Store:
    """The web server's files by path, the bucket's by name, and what a job must know to reach them."""

    def __init__(self, url: str, files: dict[str, bytes], endpoint: str) -> None:
        self.url, self.files, self.endpoint = url, files, endpoint
        iam = self.client("iam", "nobody", "nothing")
        iam.create_user(UserName=USER)
        iam.put_user_policy(UserName=USER, PolicyName="all", PolicyDocument=json.dumps(POLICY))
        pair = iam.create_access_key(UserName=USER)["AccessKey"]
        self.key, self.secret = pair["AccessKeyId"], pair["SecretAccessKey"]
        self._bucket = self.client("s3", self.key, self.secret)
        self._bucket.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )

    def client(self, service: str, key: str, secret: str) -> BaseClient:
        """Return a client of the store with a pair of keys."""
        keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return boto3.client(service, REGION, endpoint_url=self.endpoint, **keys)

    def put(self, name: str, content: bytes) -> None:
        """Put a file into the bucket."""
        self._bucket.put_object(Bucket=BUCKET, Key=name, Body=content)

    def get(self, name: str) -> bytes:
        """Return a file of the bucket."""
        return self._bucket.get_object(Bucket=BUCKET, Key=name)["Body"].read()

    def s3(self, path: str) -> dict[str, object]:
        """Return a place in the bucket as a workflow names it."""
        place = {
            "region": REGION,
            "bucketUrl": f"s3://{BUCKET}",
            "path": path,
            "endpointUrl": self.endpoint,
        }
        return {"s3": {**place, "accessKeyId": self.key, "secretAccessKey": self.secret}}


@contextlib.contextmanager
def running(address: str) -> Iterator[Store]:
    """Run a store on an address; it starts empty."""
    files: dict[str, bytes] = {}
    with _web(address, files) as url, _s3(address) as endpoint:
        store = Store(url, files, endpoint)
        with enable_iam_authentication():
            yield store


@contextlib.contextmanager
def _web(address: str, files: dict[str, bytes]) -> Iterator[str]:
    """Run a web server that gives files and takes them; yield its address."""

    @Request.application
    def answer(request: Request) -> Response:
        if request.method == "PUT":
            files[request.path] = request.get_data()
            return Response("kept")
        content = files.get(request.path)
        return Response(content, 404 if content is None else 200)

    server = make_server(address, 0, answer, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{address}:{server.port}"
    finally:
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def _s3(address: str) -> Iterator[str]:
    """Run moto; yield its address."""
    server = ThreadedMotoServer(address, 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    endpoint = f"http://{address}:{port}"
    try:
        yield endpoint
    finally:
        httpx.post(f"{endpoint}/moto-api/reset").raise_for_status()
        server.stop()
