import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Reads the broker settings of one Kafka release from its classes; run by tools/kafka_settings.py with that release's jars.
 *
 * <p>"table" prints every setting of KafkaConfig's ConfigDef as one JSON object per line, "topics" those of a topic (LogConfig's). "judge" reads configurations (lines of key, tab,
 * value; an empty line ends a configuration) and prints one line for each: "ok" if KafkaConfig accepts it, else the first line of its error.
 */
public class KafkaSettings {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("table")) table();
        else if (arguments[0].equals("topics")) topics();
        else judge();
    }

    private static void topics() throws Exception {
        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configKeys()).values()) System.out.println(json(row(key)));
    }

    private static void table() throws Exception {
        Map<String, String> updates = updateModes();
        for (ConfigDef.ConfigKey key : new TreeMap<>(kafka.server.KafkaConfig.configDef().configKeys()).values()) {
            Map<String, Object> row = row(key);
            row.put("update", updates.getOrDefault(key.name, "read-only"));
            System.out.println(json(row));
        }
    }

    private static Map<String, Object> row(ConfigDef.ConfigKey key) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("name", key.name);
        row.put("type", key.type.name().toLowerCase());
        limits(key.validator, row);
        if (key.hasDefault() && key.defaultValue != null) {
            row.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
        }
        if (key.type == ConfigDef.Type.PASSWORD) row.put("sensitive", true);
        if (key.internalConfig) row.put("internal", true);
        return row;
    }

    /** Records the values that Kafka accepts according to the validator; for an unknown validator, its own description. */
    @SuppressWarnings("unchecked")
    private static void limits(ConfigDef.Validator validator, Map<String, Object> row) throws Exception {
        if (validator == null) return;
        switch (validator.getClass().getSimpleName()) {
            case "Range" -> {
                put(row, "min", of(validator, "min"));
                put(row, "max", of(validator, "max"));
            }
            case "ValidString" -> row.put("allowed", of(validator, "validStrings"));
            case "CaseInsensitiveValidString" -> {
                row.put("allowed", new ArrayList<>(new java.util.TreeSet<>((java.util.Set<String>) of(validator, "validStrings"))));
                row.put("anyCase", true);
            }
            case "ValidList" -> {
                List<?> allowed = (List<?>) of(of(validator, "validString"), "validStrings");
                if (!allowed.isEmpty()) row.put("allowed", allowed);
                if (!(Boolean) of(validator, "isEmptyAllowed")) row.put("filled", true);
            }
            case "NonEmptyString" -> row.put("filled", true);
            case "NonNullValidator" -> { }
            default -> row.put("said", validator.toString());
        }
    }

    private static void put(Map<String, Object> row, String name, Object value) {
        if (value != null) row.put(name, value);
    }

    private static Object of(Object owner, String field) throws Exception {
        Field found = owner.getClass().getDeclaredField(field);
        found.setAccessible(true);
        return found.get(owner);
    }

    /** The class moved between releases; earlier it was a Scala object. */
    @SuppressWarnings("unchecked")
    private static Map<String, String> updateModes() throws Exception {
        Object modes;
        try {
            Class<?> found = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
            modes = found.getMethod("dynamicConfigUpdateModes").invoke(null);
        } catch (ClassNotFoundException before) {
            Class<?> found = Class.forName("kafka.server.DynamicBrokerConfig$");
            modes = found.getMethod("dynamicConfigUpdateModes").invoke(found.getField("MODULE$").get(null));
        }
        return (Map<String, String>) modes;
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((key, of) -> parts.add(json(key) + ":" + json(of)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(KafkaSettings::json).toList()) + "]";
        if (value instanceof Number || value instanceof Boolean) return value.toString();
        StringBuilder text = new StringBuilder("\"");
        for (char letter : value.toString().toCharArray()) {
            if (letter == '"' || letter == '\\') text.append('\\').append(letter);
            else if (letter < ' ' || letter > '~') text.append(String.format("\\u%04x", (int) letter));
            else text.append(letter);
        }
        return text.append('"').toString();
    }

    private static void judge() throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Kafka logs to standard output
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Properties asked = new Properties();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (!line.isEmpty()) {
                int tab = line.indexOf('\t');
                asked.setProperty(line.substring(0, tab), line.substring(tab + 1));
                continue;
            }
            String verdict = "ok";
            try {
                kafka.server.KafkaConfig config = kafka.server.KafkaConfig.fromProps(asked, false);
                Map<String, Object> topics = config.extractLogConfigMap();
                LogConfig.validateBrokerLogConfigValues(topics, config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
                new LogConfig(topics);
            } catch (Throwable refused) {
                verdict = (refused.getClass().getSimpleName() + ": " + refused.getMessage()).lines().findFirst().orElse("refused");
            }
            answers.println(verdict);
            asked = new Properties();
        }
    }
}
