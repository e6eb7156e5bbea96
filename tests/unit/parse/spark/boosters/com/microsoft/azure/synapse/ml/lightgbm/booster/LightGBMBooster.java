package com.microsoft.azure.synapse.ml.lightgbm.booster;

import java.io.Serializable;
import scala.None$;
import scala.Option;
import scala.Some;

/** The fields that Scala gives the class of SynapseML; those of lazy values are 0 until asked. */
public class LightGBMBooster implements Serializable {
    private static final long serialVersionUID = 777L;
    private final Option trainDataset = None$.MODULE$;
    private final Option parameters = None$.MODULE$;
    private final Option modelStr;
    private int bestIteration = -1;
    private int startIteration = 0;
    private int numIterations = -1;
    private int numClasses;
    private int numFeatures;
    private int numTotalModel;
    private int numModelPerIteration;
    private int numTotalIterations;
    private volatile byte bitmap$0;

    public LightGBMBooster(String modelStr) {
        this.modelStr = new Some(modelStr);
    }

    public LightGBMBooster(String modelStr, int startIteration, int numIterations) {
        this(modelStr);
        this.startIteration = startIteration;
        this.numIterations = numIterations;
    }
}
