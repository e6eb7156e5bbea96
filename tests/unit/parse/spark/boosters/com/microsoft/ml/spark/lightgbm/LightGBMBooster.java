package com.microsoft.ml.spark.lightgbm;

import java.io.Serializable;

/** The fields of the class before 2021, when the library was called MMLSpark. */
public class LightGBMBooster implements Serializable {
    private static final long serialVersionUID = 777L;
    private final String model;
    private int numClasses;
    private int numIterations;
    private volatile byte bitmap$0;

    public LightGBMBooster(String model) {
        this.model = model;
    }
}
