import com.microsoft.azure.synapse.ml.lightgbm.booster.LightGBMBooster;
import java.io.FileOutputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import scala.None$;

/** Writes what the tests read; see README.md. */
public class MakeBoosters {
    public static void main(String[] arguments) throws Exception {
        write("scala_2_12", new LightGBMBooster("MODEL"));
        None$.byProxy = true;
        write("scala_2_13", new LightGBMBooster("MODEL"));
        write("bounded", new LightGBMBooster("MODEL", 2, 3));
        write("mmlspark", new com.microsoft.ml.spark.lightgbm.LightGBMBooster("MODEL"));
        write("long", new LightGBMBooster(Files.readString(Path.of("model.txt"))));
        write("texts", new LightGBMBooster("a\0\u00e9\u20ac\ud83d\ude00"));
        write("list", new ArrayList<>(java.util.List.of("MODEL")));
        write("array", new String[] {"MODEL"});
    }

    private static void write(String name, Serializable object) throws Exception {
        try (var out = new ObjectOutputStream(new FileOutputStream(name))) {
            out.writeObject(object);
        }
    }
}
