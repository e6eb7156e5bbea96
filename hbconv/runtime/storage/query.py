"""A model as the text of a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hbconv.runtime.storage.export import Exportable

__all__ = ["WritesSql"]


class WritesSql:
    """What has ``to_sql``."""

    def to_sql(
        self: Exportable,
        dialect: str = "duckdb",
        table: str = "rows",
        keys: str | Iterable[str] = (),
        methods: str | Iterable[str] | None = None,
    ) -> str:
        """Write the model as one SELECT, which answers each row of a table (``docs/sql.md``).

        Numeric columns are read as float64. Rows that the source model refuses get NULL.

        Parameters
        ----------
        dialect : {"duckdb", "postgres", "sqlite"}
        table : str
            Name of the table, whose columns are named as those that the model was fitted on.
        keys : str or iterable of str
            More columns of the table, which are passed through.
        methods : str or iterable of str, optional
            By default ``predict`` and ``predict_proba``, or ``transform``. Answers of several
            columns end in the class or feature: ``predict_proba_yes``.

        Raises
        ------
        OptionError
            Another dialect or method.
        BackendError
            SQL cannot hold the model, or its text is longer than a megabyte.

        Examples
        --------
        >>> from sklearn.linear_model import LinearRegression
        >>> import hbconv
        >>> source = LinearRegression(fit_intercept=False).fit([[1.0], [2.0]], [2.0, 4.0])
        >>> model = hbconv.convert(source, backend="reference")
        >>> print(model.to_sql("sqlite"), end="")
        WITH v_1 AS (SELECT CAST("x0" AS REAL) AS v0 FROM "rows" LIMIT -1 OFFSET 0),
        v_2 AS (SELECT v0, (NOT coalesce(abs(v0)<9e999,FALSE)) AS v1 FROM v_1 LIMIT -1 OFFSET 0)
        SELECT CASE WHEN v1 THEN NULL ELSE v0*2.0 END AS "predict" FROM v_2
        """
        from hbconv.runtime.storage.export import write_sql

        return write_sql(self, dialect, table, keys, methods)
