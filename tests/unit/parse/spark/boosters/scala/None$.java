package scala;

import scala.runtime.ModuleSerializationProxy;

/** Scala 2.12 writes the object itself, and Scala 2.13 a proxy that names its class. */
public final class None$ extends Option {
    private static final long serialVersionUID = 5066590221178148012L;
    public static final None$ MODULE$ = new None$();
    public static boolean byProxy = false;

    private Object writeReplace() {
        return byProxy ? new ModuleSerializationProxy(None$.class) : this;
    }
}
