package scala;

public final class Some extends Option {
    private static final long serialVersionUID = 1234066923277475523L;
    private final Object value;

    public Some(Object value) {
        this.value = value;
    }
}
