package scala;

import java.io.Serializable;

public abstract class Option implements Serializable {
    private static final long serialVersionUID = -114498752079829388L;
}
