"""The Open Inference Protocol over gRPC, asked by tritonclient and by bare grpc."""

from __future__ import annotations

import logging
import queue
from contextlib import suppress

import numpy as np
import pytest

from hbconv.serve.protocol.grpc_service import SERVICE, message, message_names

grpc = pytest.importorskip("grpc", reason="the extra grpc is not installed")
is_no_parting = pytest.importorskip("hbconv.serve.protocol.grpc_service").is_no_parting
triton = pytest.importorskip("tritonclient.grpc", reason="tests/clients.txt is not installed")


@pytest.fixture(scope="module")
def asking(server):
    with triton.InferenceServerClient(server.grpc) as found:
        yield found


def infer_input(name, array, datatype):
    found = triton.InferInput(name, array.shape, datatype)
    found.set_data_from_numpy(array)
    return found


def test_messages_are_those_of_the_protocol():
    """Fields of triton's messages that ours have too have the same numbers, types and labels."""
    service, config = triton.service_pb2, triton.model_config_pb2
    places = (
        *(service, service.ModelInferRequest, service.ModelInferResponse, config),
        *(service.ModelMetadataResponse, service.RepositoryIndexResponse),
    )
    for name in message_names():
        known = next(getattr(place, name) for place in places if hasattr(place, name))
        fields = {field.name: field for field in known.DESCRIPTOR.fields}
        for field in message(name).DESCRIPTOR.fields:
            other = fields[field.name]
            assert (field.number, field.type, field.is_repeated) == (
                other.number,
                other.type,
                other.is_repeated,
            ), f"{name}.{field.name}"


def test_tritonclient(asking, sources):
    source = sources["mixed"]
    inputs = [
        infer_input("age", source.rows.age.to_numpy(), "FP64"),
        infer_input("income", source.rows.income.to_numpy(), "FP64"),
        infer_input("city", np.array([c.encode() for c in source.rows.city], object), "BYTES"),
    ]
    outputs = [triton.InferRequestedOutput(name) for name in ("predict", "predict_proba")]
    found = asking.infer("mixed", inputs, outputs=outputs, request_id="a")
    labels = [one.decode() for one in found.as_numpy("predict")]
    assert labels == source.estimator.predict(source.rows).tolist()
    answer = source.estimator.predict_proba(source.rows)
    np.testing.assert_allclose(found.as_numpy("predict_proba"), answer, rtol=1e-12)
    assert found.get_response().id == "a"


def test_tritonclient_is_told_statistics(asking, sources):
    rows = sources["numbers"].rows

    def told():
        (found,) = asking.get_inference_statistics("numbers", as_json=True)["model_stats"]
        fail = int(found["inference_stats"].get("fail", {}).get("count", 0))
        success = int(found["inference_stats"].get("success", {}).get("count", 0))
        return int(found.get("inference_count", 0)), success, fail

    before = told()
    asking.infer("numbers", [infer_input("X", rows, "FP64")])
    refused(
        lambda: asking.infer("numbers", [infer_input("y", rows, "FP64")]), "INVALID_ARGUMENT", "y"
    )
    assert told() == (before[0] + len(rows), before[1] + 1, before[2] + 1)
    every = asking.get_inference_statistics(as_json=True)["model_stats"]
    assert {one["name"] for one in every} >= {"numbers", "mixed"}


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda c: c.get_system_shared_memory_status(), "Shared memory is not supported"),
        (lambda c: c.register_system_shared_memory("a", "/a", 8), "Send the data of tensors"),
        (lambda c: c.unregister_cuda_shared_memory("a"), "Shared memory of CUDA"),
        (lambda c: c.get_trace_settings(), "Traces are not supported"),
        (lambda c: c.get_log_settings(), "The log is set at the start"),
    ],
)
def test_tritonclient_is_told_what_is_absent(asking, ask, why):
    refused(lambda: ask(asking), "UNIMPLEMENTED", why)


def test_streams_are_refused_by_name(asking, sources):
    answers = queue.Queue()
    asking.start_stream(lambda result, error: answers.put(error))
    with suppress(triton.InferenceServerException):  # refused before it asks
        asking.async_stream_infer("numbers", [infer_input("X", sources["numbers"].rows, "FP64")])
    assert "Streams are not supported" in str(answers.get(timeout=30))
    asking.stop_stream()


def test_tritonclient_asks_without_waiting(asking, sources):
    answers = queue.Queue()
    rows = sources["numbers"].rows
    given = [infer_input("X", rows, "FP64")]
    asking.async_infer("numbers", given, lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=30)
    assert error is None
    np.testing.assert_array_equal(
        result.as_numpy("predict"), sources["numbers"].estimator.predict(rows)
    )


@pytest.mark.parametrize("name", ["numbers", "targets", "neighbours"])
def test_the_usual_outputs(asking, sources, name):
    source = sources[name]
    found = asking.infer(name, [infer_input("X", source.rows, "FP64")], model_version="1")
    np.testing.assert_array_equal(found.as_numpy("predict"), source.estimator.predict(source.rows))


def test_tritonclient_asks_for_what_is_there(asking):
    assert asking.is_server_live()
    assert asking.is_server_ready()
    assert asking.is_model_ready("mixed")
    assert asking.get_server_metadata().name == "hbconv"
    told = asking.get_model_metadata("mixed", as_json=True)
    assert [one["name"] for one in told["inputs"]] == ["age", "income", "city"]
    config = asking.get_model_config("mixed", as_json=True)["config"]
    assert config["input"][2] == {"name": "city", "data_type": "TYPE_STRING", "dims": ["-1"]}
    index = asking.get_model_repository_index(as_json=True)
    assert {"name": "numbers", "version": "1", "state": "READY"} in index["models"]


def refused(ask, code, why):
    with pytest.raises(triton.InferenceServerException) as caught:
        ask()
    assert caught.value.status() == f"StatusCode.{code}"
    assert why in caught.value.message()


def test_errors_have_their_codes(asking, sources):
    rows = sources["numbers"].rows
    good = [infer_input("X", rows, "FP64")]
    refused(lambda: asking.infer("none", good), "NOT_FOUND", "There is no model 'none'")
    refused(lambda: asking.infer("numbers", good, model_version="7"), "NOT_FOUND", "no version")
    wrong = [infer_input("y", rows, "FP64")]
    refused(lambda: asking.infer("numbers", wrong), "INVALID_ARGUMENT", "Unknown inputs: 'y'")
    bad = [infer_input("X", np.full((1, 4), np.nan), "FP64")]
    refused(lambda: asking.infer("numbers", bad), "INVALID_ARGUMENT", "Input X contains NaN")
    refused(lambda: asking.get_model_metadata("none"), "NOT_FOUND", "There is no model")
    refused(lambda: asking.load_model("numbers"), "PERMISSION_DENIED", "--control")
    many = [infer_input("X", np.zeros((2001, 4)), "FP64")]
    refused(lambda: asking.infer("numbers", many), "INVALID_ARGUMENT", "2001 rows")
    huge = [infer_input("X", np.zeros((40_000, 4)), "FP64")]
    refused(lambda: asking.infer("numbers", huge), "RESOURCE_EXHAUSTED", "larger than max")
    assert asking.infer("numbers", good).as_numpy("predict").shape == (len(rows),)


def call(server, **fields):
    """Ask by bare grpc, with messages of our own."""
    request = message("ModelInferRequest")(model_name="numbers", **fields)
    with grpc.insecure_channel(server.grpc) as channel:
        method = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message("ModelInferResponse").FromString,
        )
        return method(request, timeout=60)


@pytest.mark.parametrize(
    ("datatype", "contents"),
    [
        ("FP64", {"fp64_contents": [1, 2, 3, 4]}),
        ("FP32", {"fp32_contents": [1, 2, 3, 4]}),
        ("INT8", {"int_contents": [1, 2, 3, 4]}),
        ("UINT64", {"uint64_contents": [1, 2, 3, 4]}),
    ],
)
def test_lists_of_numbers(server, sources, datatype, contents):
    tensor = {"name": "X", "datatype": datatype, "shape": [1, 4], "contents": contents}
    found = call(server, inputs=[tensor], outputs=[{"name": "decision_function"}])
    answer = sources["numbers"].estimator.decision_function([[1, 2, 3, 4]])
    np.testing.assert_allclose(np.frombuffer(found.raw_output_contents[0]), answer, rtol=1e-12)


X = {"name": "X", "datatype": "FP64", "shape": [1, 4]}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "Inputs are missing: 'X'"),
        ({"inputs": [X]}, "holds 0 values"),
        ({"inputs": [X | {"shape": [-1, 4]}]}, "no shape of a tensor"),
        ({"inputs": [X | {"shape": [1 << 40, 1 << 20]}]}, "no shape of a tensor"),
        ({"inputs": [X | {"datatype": "FP65"}]}, "has datatype"),
        ({"inputs": [X | {"datatype": "FP16"}]}, "as raw contents"),
        ({"inputs": [X | {"datatype": "INT8", "contents": {"int_contents": [1, 2, 3, 400]}}]}, "exceeds int8"),
        ({"inputs": [X | {"contents": {"fp64_contents": [1] * 4}}] * 2}, "is there twice"),
        ({"inputs": [X], "raw_input_contents": [b"1"]}, "has 1 bytes of data"),
        ({"inputs": [X], "raw_input_contents": [b"", b""]}, "2 raw contents do not fit 1 inputs"),
        ({"inputs": [X | {"contents": {"fp64_contents": [1]}}], "raw_input_contents": [b"1"]}, "has both"),
        ({"inputs": [X | {"datatype": "BYTES", "contents": {"bytes_contents": [b"\xff"] * 4}}]}, "is not UTF-8"),
    ],
)  # fmt: skip
def test_bad_messages_have_their_reason(server, fields, why):
    with pytest.raises(grpc.RpcError) as caught:
        call(server, **fields)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert why in caught.value.details()


def ask_bytes(server, data, name="ModelInfer", **options):
    """Return the code and the details that some bytes are answered by."""
    with grpc.insecure_channel(server.grpc) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{SERVICE}/{name}")(data, timeout=60, **options)
        return caught.value.code().name, caught.value.details()


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\xff" * 200_000, b"\x0a\1\xff"])
def test_bytes_that_are_no_message(server, client, data):
    counted = client.get("/metrics").text.count('route="infer",status="400"')
    code, details = ask_bytes(server, data)
    assert (code, "no message" in details) == ("INVALID_ARGUMENT", True)
    assert client.get("/metrics").text.count('route="infer",status="400"') >= max(counted, 1)
    assert "Traceback" not in server.log.read_text()


def test_messages_of_many_parts(server):
    code, details = ask_bytes(server, b"\x2a\0" * 200_000)
    assert (code, "fields" in details) == ("INVALID_ARGUMENT", True)


def test_messages_that_ask_no_model_are_short(server):
    assert (
        ask_bytes(server, b"\x0a\xf0\xa2\4" + b"n" * 70_000, "ModelMetadata")[0]
        == "RESOURCE_EXHAUSTED"
    )


def test_nothing_is_read_without_a_token(starting, folder):
    served = starting(
        *(folder / "numbers.hbc", "--grpc-port", 0, "--max-body-mb", 1),
        environment={"HBCONV_TOKEN": "0123456789abcdef"},
    )
    gzip = grpc.Compression.Gzip
    for size in (1, 5 << 20):  # what is too large would be told, were it read
        assert ask_bytes(served, bytes(size), compression=gzip)[0] == "UNAUTHENTICATED"
    with grpc.insecure_channel(served.grpc) as channel:
        assert channel.unary_unary(f"/{SERVICE}/ServerLive")(bytes(5 << 20), compression=gzip)
    assert "Traceback" not in served.log.read_text()


def test_long_messages_and_answers(server, sources):
    rows = np.random.default_rng(0).normal(size=(2000, 4))
    answer = sources["numbers"].estimator.predict_proba(rows)
    for sent in ({"contents": {"fp64_contents": rows.ravel()}}, {}):
        tensor = {"name": "X", "datatype": "FP64", "shape": [2000, 4], **sent}
        raw = {} if sent else {"raw_input_contents": [rows.tobytes()]}
        wanted = [{"name": "predict_proba"}, {"name": "decision_function"}]
        found = call(server, inputs=[tensor], outputs=wanted, **raw)
        shares = np.frombuffer(found.raw_output_contents[0]).reshape(-1, 2)
        np.testing.assert_allclose(shares, answer, rtol=1e-12)


def test_clients_that_leave_are_no_failures(server):
    with grpc.insecure_channel(server.grpc) as channel:
        for _ in range(300):
            channel.unary_unary(f"/{SERVICE}/ServerLive").future(b"").cancel()
        assert channel.unary_unary(f"/{SERVICE}/ServerLive")(b"", timeout=60)
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(("error", "is_told"), [("ExecuteBatchError", False), ("KeyError", True)])
def test_what_grpc_logs_of_clients_that_left_is_left_out(error, is_told):
    raised = type(error, (Exception,), {})
    told = logging.LogRecord("grpc", 40, "a", 1, "it fails", (), (raised, raised(), None))
    assert is_no_parting(told) is is_told


def test_a_token_and_two_workers(starting, folder, tmp_path):
    token = "0123456789abcdef"
    arguments = (folder / "numbers.hbc", "--workers", 2, "--grpc-port", 0)
    served = starting(*arguments, environment={"HBCONV_TOKEN": token})
    rows = [infer_input("X", np.zeros((1, 4)), "FP64")]
    bearer = {"authorization": f"Bearer {token}"}
    for _ in range(4):
        with triton.InferenceServerClient(served.grpc) as client:
            assert client.is_server_ready()
            refused(
                lambda client=client: client.infer("numbers", rows), "UNAUTHENTICATED", "Bearer"
            )
            found = client.infer("numbers", rows, headers=bearer)
            assert found.as_numpy("predict").shape == (1,)
    assert served.stop() == 0
