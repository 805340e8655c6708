# SPDX-License-Identifier: Apache-2.0
"""A web server and an S3 store for jobs of the lab, in the test process.

The web server and the store listen on this machine's address in the lab's network. The library moto
provides the S3 store, and refuses requests that are not signed with the store's access key. moto
keeps its state in global variables, so at most one store can run at a time.
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
    """The files of the web server by path, and a bucket with its endpoint and credentials."""

    def __init__(self, url: str, files: dict[str, bytes], endpoint: str) -> None:
        self.url, self.files, self.endpoint = url, files, endpoint
        iam = self.client("iam", "nobody", "nothing")
        iam.create_user(UserName=USER)
        iam.put_user_policy(UserName=USER, PolicyName="all", PolicyDocument=json.dumps(POLICY))
        access_key = iam.create_access_key(UserName=USER)["AccessKey"]
        self.key, self.secret = access_key["AccessKeyId"], access_key["SecretAccessKey"]
        self._bucket = self.client("s3", self.key, self.secret)
        self._bucket.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )

    def client(self, service: str, key: str, secret: str) -> BaseClient:
        """Return a client of the store with an access key and its secret."""
        keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return boto3.client(service, REGION, endpoint_url=self.endpoint, **keys)

    def put(self, name: str, content: bytes) -> None:
        """Write a file to the bucket."""
        self._bucket.put_object(Bucket=BUCKET, Key=name, Body=content)

    def get(self, name: str) -> bytes:
        """Return the content of a file in the bucket."""
        return self._bucket.get_object(Bucket=BUCKET, Key=name)["Body"].read()

    def s3(self, path: str) -> dict[str, object]:
        """Return a workflow field with the location of a path in the bucket."""
        location = {
            "region": REGION,
            "bucketUrl": f"s3://{BUCKET}",
            "path": path,
            "endpointUrl": self.endpoint,
        }
        return {"s3": {**location, "accessKeyId": self.key, "secretAccessKey": self.secret}}


@contextlib.contextmanager
def run_store(address: str) -> Iterator[Store]:
    """Run an empty store on an address during the ``with`` block."""
    files: dict[str, bytes] = {}
    with _web(address, files) as url, _s3(address) as endpoint:
        store = Store(url, files, endpoint)
        with enable_iam_authentication():
            yield store


@contextlib.contextmanager
def _web(address: str, files: dict[str, bytes]) -> Iterator[str]:
    """Run a web server that serves files and stores uploads. Yield its URL."""

    @Request.application
    def answer(request: Request) -> Response:
        if request.method == "PUT":
            files[request.path] = request.get_data()
            return Response("stored")
        content = files.get(request.path)
        status = 404 if content is None else 200
        return Response(content, status)

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
    """Run moto's S3 server and yield the URL of the server."""
    server = ThreadedMotoServer(address, 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    endpoint = f"http://{address}:{port}"
    try:
        yield endpoint
    finally:
        httpx.post(f"{endpoint}/moto-api/reset").raise_for_status()
        server.stop()
