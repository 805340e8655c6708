# SPDX-License-Identifier: Apache-2.0
"""The S3 store of the e2e tests: only requests with the right keys read or write files."""

import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError
from tests.e2e import store as stores


@pytest.fixture(scope="module")
def store():
    # A new store must not contain the files of an earlier store.
    with stores.run_store("127.0.0.1") as earlier_store:
        earlier_store.put("earlier", b"hello")
    with stores.run_store("127.0.0.1") as server:
        server.put("in/word", b"hello")
        yield server


@pytest.mark.parametrize("changed", ["key", "secret"])
@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("list_objects", {}),
        ("get_object", {"Key": "in/word"}),
        ("put_object", {"Key": "in/word", "Body": b"mine"}),
        ("delete_object", {"Key": "in/word"}),
    ],
)
def test_a_wrong_key_is_refused(store, action, arguments, changed):
    credentials = {"key": store.key, "secret": store.secret} | {changed: "wrong"}
    client = store.client("s3", **credentials)

    with pytest.raises(ClientError) as error:
        getattr(client, action)(Bucket="bucket", **arguments)

    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert store.get("in/word") == b"hello"


def test_a_client_with_the_right_key_can_list_put_get_and_delete_files(store):
    client = store.client("s3", store.key, store.secret)

    client.put_object(Bucket="bucket", Key="out/a b", Body=b"first")
    client.put_object(Bucket="bucket", Key="out/a b", Body=b"second")

    assert keys_in_bucket(client) == ["in/word", "out/a b"]
    assert store.get("out/a b") == b"second"
    client.delete_object(Bucket="bucket", Key="out/a b")
    assert keys_in_bucket(client) == ["in/word"]


def test_the_web_server_serves_files_and_stores_uploads(store):
    store.files["/in"] = b"hello"

    with urllib.request.urlopen(f"{store.url}/in") as answer:
        assert answer.read() == b"hello"
    urllib.request.urlopen(
        urllib.request.Request(f"{store.url}/out", b"done", method="PUT")
    ).close()
    assert store.files == {"/in": b"hello", "/out": b"done"}
    with pytest.raises(urllib.error.HTTPError, match="404") as error:
        urllib.request.urlopen(f"{store.url}/nothing")
    error.value.close()


def keys_in_bucket(client):
    return [s3_object["Key"] for s3_object in client.list_objects(Bucket="bucket")["Contents"]]
