"""Libraries that read tree ensembles of others: each gives a function of float32 rows.

Some answer the positive class alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers.setting import Call, Setting, Unavailable

__all__ = [
    "booster", "lignum", "lignum_compiled", "lleaves", "onedal", "snapml", "tl2cgen", "treelite",
    "ydf",
]  # fmt: skip


def booster(setting: Setting) -> Any:
    """Return the Booster inside a model of LightGBM or XGBoost, None for others."""
    if setting.fitted.library == "lightgbm":
        return setting.model.booster_
    return setting.model.get_booster() if setting.fitted.library == "xgboost" else None


def onedal(setting: Setting) -> Call:
    """Convert to oneDAL's gradient boosting.

    scikit-learn's ensembles go by way of treelite, as oneDAL's documentation advises.
    """
    import daal4py

    daal4py.daalinit(setting.threads)
    is_catboost = setting.fitted.library == "catboost"
    own = setting.model if is_catboost else booster(setting) or as_treelite(setting)
    model = daal4py.mb.convert_model(own)
    return model.predict if model._is_regression else model.predict_proba  # noqa: SLF001


def lleaves(setting: Setting, single: bool = False) -> Call:
    """Compile by lleaves, which takes minutes for deep trees."""
    import lleaves

    if setting.fitted.library != "lightgbm":
        raise Unavailable("reads LightGBM's models only")
    text = setting.fitted.folder / f"{setting.fitted.name}.txt"
    booster(setting).save_model(text)
    code = """if True:
        import sys, lleaves
        model = lleaves.Model(sys.argv[2])
        model.compile(cache=sys.argv[1], use_fp64=sys.argv[3] == '0')
    """
    cache = setting.compiled("-single.lleaves" if single else ".lleaves", code, text, int(single))
    model = lleaves.Model(str(text))
    model.compile(cache=str(cache), use_fp64=not single)
    return lambda x: model.predict(x, n_jobs=setting.threads)


def as_treelite(setting: Setting) -> Any:
    """Import the model into treelite."""
    import treelite

    if setting.fitted.method == "score_samples":
        raise Unavailable("answers another score of isolation forests")
    if setting.fitted.library == "lightgbm":
        return treelite.frontend.from_lightgbm(booster(setting))
    if setting.fitted.library == "xgboost":
        return treelite.frontend.from_xgboost(booster(setting))
    return treelite.sklearn.import_model(setting.model)


def treelite(setting: Setting) -> Call:
    """Interpret by treelite's own GTIL."""
    from treelite import gtil

    model = as_treelite(setting)
    return lambda x: gtil.predict(model, x, nthread=setting.threads)


def tl2cgen(setting: Setting) -> Call:
    """Compile C that treelite's generator writes."""
    import tl2cgen

    stored = setting.fitted.folder / f"{setting.fitted.name}.treelite"
    as_treelite(setting).serialize(stored)
    code = """if True:
        import sys, treelite, tl2cgen
        model = treelite.Model.deserialize(sys.argv[2])
        tl2cgen.export_lib(model, 'gcc', sys.argv[1], {'parallel_comp': 8})
    """
    predictor = tl2cgen.Predictor(setting.compiled(".so", code, stored), nthread=setting.threads)
    return lambda x: predictor.predict(tl2cgen.DMatrix(x, dtype="float32"))


def ydf(setting: Setting) -> Call:
    """Import an ensemble of scikit-learn into YDF, which takes the fastest engine that it has.

    For trees of up to 64 leaves that is QuickScorer (Lucchese et al., 2015) in vectors. YDF reads
    forests and GradientBoostingRegressor. Of a call for one row most is its reading of the rows.
    """
    import ydf

    ydf.verbose(0)
    model = ydf.from_sklearn(setting.model)
    threads = setting.threads
    return lambda x: model.predict({"features": x}, num_threads=threads)


def snapml(setting: Setting) -> Call:
    """Import a text of LightGBM into Snap ML, which chooses a layout of trees for the processor."""
    import snapml

    if setting.fitted.library != "lightgbm":
        raise Unavailable("reads LightGBM's models only")
    path = setting.fitted.folder / f"{setting.fitted.name}-snapml.txt"
    booster(setting).save_model(path)
    classifies = setting.fitted.method == "predict_proba"
    model = snapml.BoostingMachineClassifier() if classifies else snapml.BoostingMachineRegressor()
    model.import_model(str(path), "lightgbm", tree_format="auto")
    model.set_params(n_jobs=setting.threads)
    return getattr(model, setting.fitted.method)


def lignum(setting: Setting) -> Call:
    """Interpret by lignum, which answers the bits of LightGBM, XGBoost and CatBoost."""
    import lignum

    model = lignum.load(str(_lignum_file(setting)))
    return lambda x: model.predict(x, n_jobs=setting.threads)


def lignum_compiled(setting: Setting) -> Call:
    """Compile the C that lignum writes, which takes half a minute for 1,000 trees."""
    import lignum

    if setting.fitted.library == "catboost":
        raise Unavailable("compiles no trees of CatBoost")
    path = _lignum_file(setting)
    code = """if True:
        import sys, lignum
        lignum.load(sys.argv[2]).compile(jobs=1, library=sys.argv[1])
    """
    library = setting.compiled("-lignum.so", code, path)
    model = lignum.load(str(path), compiled=library)
    # It measures from how many rows the compiled trees are the faster ones.
    model.autotune(setting.fitted.rows(5000).astype("float64"))
    return lambda x: model.predict(x, n_jobs=setting.threads)


def _lignum_file(setting: Setting) -> Path:
    """Write the file that lignum reads."""
    stem = setting.fitted.folder / f"{setting.fitted.name}-lignum"
    if setting.fitted.library == "lightgbm":
        booster(setting).save_model(stem.with_suffix(".txt"))
        return stem.with_suffix(".txt")
    path = stem.with_suffix(".json")
    if setting.fitted.library == "xgboost":
        booster(setting).save_model(path)
    elif setting.fitted.library == "catboost":
        from catboost import Pool

        names = setting.model.get_cat_feature_indices()
        pool = Pool(setting.sample, cat_features=names) if names else None
        setting.model.save_model(str(path), format="json", pool=pool)
    else:
        raise Unavailable("reads models of LightGBM, XGBoost and CatBoost")
    return path
