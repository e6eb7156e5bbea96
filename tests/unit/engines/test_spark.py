import decimal
import os
import pickle
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from late import late

import hbconv
import hbconv.mlflow
from hbconv.engines import spark as adapter
from hbconv.engines import travelling
from hbconv.engines.spark import create_function, score_batches, score_rows

ARGUMENTS = "age, city, income"
BOTH = ["predict", "predict_proba"]


def check(found, rows, source):
    assert found.id.tolist() == rows.id.tolist()
    assert found.predict.tolist() == source.predict(rows).tolist()
    chances = found[["predict_proba_goes", "predict_proba_stays"]]
    np.testing.assert_allclose(chances, source.predict_proba(rows), rtol=1e-9)


def test_a_task_answers_its_batches(rows, source, path):
    """What Spark's workers run, without Spark: the scorer travels as a pickle."""
    score = pickle.loads(pickle.dumps(hbconv.Scorer(path, BOTH, keep=["id"])))
    batches = pa.Table.from_pandas(rows, preserve_index=False).to_batches(max_chunksize=77)
    answers = list(score_batches(score, batches))
    assert [len(one) for one in answers] == [len(one) for one in batches]
    check(pa.Table.from_batches(answers).to_pandas(), rows, source)


def test_a_function_takes_numbers_of_any_type(rows, source, path):
    """What Spark's workers call for SQL, without Spark."""
    answer = adapter._function(hbconv.Scorer(path))
    asked = rows.head(3).assign(age=[1.0, np.nan, 0.0], city="Rome", income=[1.5, 2.0, 3.0])
    cities = pa.array(["Rome"] * 3)
    incomes = pa.array([decimal.Decimal("1.5"), decimal.Decimal(2), decimal.Decimal(3)])
    for ages in (pa.array([1, None, 0], pa.int32()), pa.array([True, None, False])):
        assert answer(ages, cities, incomes).to_pylist() == source.predict(asked).tolist()
    with pytest.raises(TypeError, match="reads 3 columns: age, city, income"):
        answer(cities)


BARE = """
import pickle, sys
sys.modules["hbconv"] = None
call = pickle.load(open(sys.argv[1], "rb"))
try:
    call([])
except ImportError as error:
    print(error)
"""


def test_a_python_without_hbconv_says_so(path, tmp_path):
    """A pickle's own error is a traceback that does not name the Python."""
    answer = travelling(partial(score_batches, hbconv.Scorer(path)))
    (tmp_path / "sent").write_bytes(late("cloudpickle").dumps(answer))
    command = [sys.executable, "-c", BARE, str(tmp_path / "sent")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{sys.executable} on ")
    assert "does not import hbconv: " in said
    assert f"Install 'hbconv[score]=={hbconv.__version__}' there" in said
    assert len(said.splitlines()) == 1


CONNECT = """
import sys
import pandas as pd
from pyspark.sql import SparkSession
from hbconv.engines.spark import create_function, score_rows

path, given, stream, answers, checks = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
frame = spark.read.parquet(given)
score_rows(frame, path, "predict", ["id"], "why").toPandas().to_json(answers + ".rows")
told = create_function(spark, "told", path)
frame.where("income < double('inf')").createOrReplaceTempView("people")
spark.sql("SELECT id, told(age, city, income) AS predict FROM people").toPandas().to_json(
    answers + ".function"
)
rows = spark.readStream.schema(frame.schema).parquet(given)
writer = score_rows(rows, path, "predict", ["id"], "why").writeStream.format("parquet")
query = writer.option("checkpointLocation", checks).start(stream)
query.processAllAvailable()
query.stop()
spark.stop()
"""
"""Answers by a server of Spark Connect that it starts: a process has no session of Spark beside."""


class TestOnSpark:
    pytestmark = pytest.mark.filterwarnings("ignore")  # Spark's own

    @pytest.fixture(scope="class")
    def spark(self):
        """A session of two threads, each with its own process of Python."""
        sql = pytest.importorskip(
            "pyspark.sql", reason="Spark is missing: pip install 'hbconv[spark]', make engines"
        )
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java, which is missing: apt-get install default-jre-headless")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
            settings = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
            session = settings.getOrCreate()
            yield session
            session.stop()

    @pytest.fixture
    def frame(self, spark, rows):
        return spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False)).repartition(
            4
        )

    @pytest.mark.parametrize("kind", ["path", "model"])
    def test_frames_are_answered_as_by_the_source(self, frame, rows, source, kind, request):
        answers = score_rows(frame, request.getfixturevalue(kind), BOTH, keep=["id"])
        check(answers.toPandas().sort_values("id", ascending=False), rows, source)

    def test_functions_of_sql(self, spark, frame, rows, source, path):
        leaves = create_function(spark, "leaves", path)
        create_function(spark, "chances", path, "predict_proba")
        frame.createOrReplaceTempView("people")
        found = spark.sql(
            f"SELECT id, predict, chances.* FROM (SELECT id, leaves({ARGUMENTS}) AS predict, "
            f"chances({ARGUMENTS}) AS chances FROM people)"
        )
        check(found.toPandas().sort_values("id", ascending=False), rows, source)
        again = frame.select("id", leaves("age", "city", "income").alias("predict")).toPandas()
        again = again.sort_values("id", ascending=False)
        assert again.predict.tolist() == source.predict(rows).tolist()

    def test_arguments_are_cast_and_null_is_missing(self, spark, rows, source, path):
        create_function(spark, "leaves", path)
        asked = rows.head(1).assign(age=np.nan, city="Rome", income=1.5)
        found = spark.sql("SELECT leaves(NULL, 'Rome', 1.5)").collect()
        assert [row[0] for row in found] == source.predict(asked).tolist()

    def test_a_refused_row_ends_the_job_with_its_reason(self, frame, path):
        with pytest.raises(Exception, match="infinity"):
            score_rows(frame.selectExpr("age", "city", "double('inf') AS income"), path).collect()

    def test_refused_rows_tell_their_reason(self, spark, some_refused, path, check_reasons):
        table = pa.Table.from_pandas(some_refused, preserve_index=False)
        frame = spark.createDataFrame(table).repartition(4)
        check_reasons(score_rows(frame, path, "predict", ["id"], "why").toPandas())
        told = create_function(spark, "told", hbconv.Scorer(path, "predict", reasons="why"))
        answers = frame.select("id", told("age", "city", "income").alias("it"))
        check_reasons(answers.select("id", "it.*").toPandas())

    def test_streams_are_answered_by_batches(self, spark, rows, source, path, tmp_path):
        """By the stream itself, by its micro-batches, and by the function of SQL."""
        table = pa.Table.from_pandas(rows, preserve_index=False)
        (tmp_path / "in").mkdir()
        for part in range(5):
            pq.write_table(table.slice(100 * part, 100), tmp_path / f"in/{part}.parquet")
        kind = spark.read.parquet(str(tmp_path / "in")).schema
        asked = spark.readStream.schema(kind).option("maxFilesPerTrigger", 2)
        leaves = create_function(spark, "leaves", path)

        def answer_batch(frame, _):
            score_rows(frame, path, keep=["id"]).write.mode("append").parquet(out("batch"))

        def out(name):
            return str(tmp_path / name)

        stream = asked.parquet(out("in"))
        columns = ["id", leaves("age", "city", "income").alias("predict")]
        kinds = {
            "rows": score_rows(stream, path, keep=["id"]).writeStream.format("parquet"),
            "function": stream.select(*columns).writeStream.format("parquet"),
            "batch": stream.writeStream.foreachBatch(answer_batch),
        }
        for name, writer in kinds.items():
            writer = writer.option("checkpointLocation", out(f"checks-{name}"))
            query = writer.start(*([] if name == "batch" else [out(name)]))
            try:
                query.processAllAvailable()
            finally:
                query.stop()
            found = pq.read_table(out(name)).to_pandas().sort_values("id", ascending=False)
            assert found.id.tolist() == rows.id.tolist(), name
            assert found.predict.tolist() == source.predict(rows).tolist(), name

    def test_spark_connect(self, spark, some_refused, source, path, check_reasons, tmp_path):
        """Rows, functions of SQL and streams, by another process, whose session is remote."""
        pytest.importorskip("grpc_status", reason="Spark Connect misses: pyspark[connect]")
        (tmp_path / "in").mkdir()
        table = pa.Table.from_pandas(some_refused, preserve_index=False)
        pq.write_table(table, tmp_path / "in/0.parquet")
        places = [str(tmp_path / name) for name in ("in", "stream", "answers", "checks")]
        done = subprocess.run(
            [sys.executable, "-c", CONNECT, str(path), *places],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        check_reasons(pd.read_json(tmp_path / "answers.rows"))
        check_reasons(pq.read_table(tmp_path / "stream").to_pandas())
        found = pd.read_json(tmp_path / "answers.function").sort_values("id", ascending=False)
        good = some_refused[np.isfinite(some_refused.income)]
        assert found.id.tolist() == good.id.tolist()
        assert found.predict.tolist() == source.predict(good).tolist()

    def test_models_of_mlflow(self, spark, frame, rows, source, model, tmp_path):
        mlflow = pytest.importorskip("mlflow", reason="MLflow is missing: hbconv[mlflow]")
        hbconv.mlflow.save_model(model, tmp_path / "m")
        leaves = mlflow.pyfunc.spark_udf(
            spark, str(tmp_path / "m"), env_manager="local", result_type="string"
        )
        found = frame.select("id", leaves("age", "city", "income").alias("predict")).toPandas()
        found = found.sort_values("id", ascending=False)
        assert found.predict.tolist() == source.predict(rows).tolist()
