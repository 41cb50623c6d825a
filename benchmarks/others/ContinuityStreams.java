import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The small checks of continuity.py in Kafka Streams; the same results, to the letter. */
class ContinuityStreams {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String STORE = "instances";
    static final long FIRST = 4;
    static final int CHECKPOINT_MS = 5000;

    /** What is known of a log: the file, and where its next event begins. */
    static class Log {
        public String file;
        public long next;
    }

    /** The state of one instance; public fields are what is kept. */
    static class Continuity {
        public double begun = now();
        public long records;
        public Map<String, Log> logs = new HashMap<>();
        public Map<String, List<long[]>> logged = new HashMap<>();
        public List<String> findings = new ArrayList<>();
        public Map<String, Long> checks = new TreeMap<>();

        /** Reads the next message; gives the result where it was the last one. */
        byte[] take(String instance, byte[] value) throws Exception {
            JsonNode record = JSON.readTree(value);
            String kind = record.get("kind").textValue();
            if (kind.equals("end")) {
                findings.sort(null);
                Map<String, Object> result = new HashMap<>();
                result.put("instance", instance);
                result.put("records", records);
                result.put("findings", findings);
                result.put("checks", checks);
                result.put("begun", begun);
                result.put("ended", now());
                return JSON.writeValueAsBytes(result);
            }
            records++;
            if (kind.equals("binlog") || kind.equals("relay")) {
                follow(kind, record);
            } else if (kind.equals("log_status")) {
                String executed = record.get("row").get("LOCAL").get("gtid_executed").textValue();
                boolean isLogged = true;
                for (Interval one : Interval.of(executed)) {
                    isLogged &= logged.getOrDefault(one.sid, List.of()).stream()
                        .anyMatch(own -> own[0] <= one.first && one.last <= own[1]);
                }
                note("executed_is_logged", record.get("collection_id").textValue(), isLogged);
            }
            return null;
        }

        void follow(String kind, JsonNode record) {
            String file = record.get("file").textValue();
            long start = record.get("start").longValue();
            Log log = logs.computeIfAbsent(kind + " " + record.path("channel").asText(""), n -> new Log());
            if (log.file != null) {
                long expected = log.file.equals(file) ? log.next : FIRST;
                note("position_continues", file + ":" + start, start == expected);
            }
            log.file = file;
            log.next = start + record.get("length").longValue();
            if (!kind.equals("binlog")) {
                return;
            }
            if (record.has("gtid")) {
                String gtid = record.get("gtid").textValue();
                int colon = gtid.lastIndexOf(':');
                long number = Long.parseLong(gtid.substring(colon + 1));
                add(new Interval(gtid.substring(0, colon), number, number));
            } else if (record.get("type").textValue().equals("PREVIOUS_GTIDS")) {
                Interval.of(record.get("gtid_set").textValue()).forEach(this::add);
            }
        }

        void add(Interval one) {
            List<long[]> own = logged.computeIfAbsent(one.sid, sid -> new ArrayList<>());
            if (!own.isEmpty() && own.get(own.size() - 1)[1] == one.first - 1) {
                own.get(own.size() - 1)[1] = one.last;
                return;
            }
            own.add(new long[] {one.first, one.last});
            own.sort((a, b) -> Long.compare(a[0], b[0]));
            List<long[]> merged = new ArrayList<>();
            for (long[] next : own) {
                long[] last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
                if (last != null && next[0] <= last[1] + 1) {
                    last[1] = Math.max(last[1], next[1]);
                } else {
                    merged.add(next);
                }
            }
            logged.put(one.sid, merged);
        }

        void note(String rule, String at, boolean holds) {
            checks.merge(rule + (holds ? " holds" : " broken"), 1L, Long::sum);
            if (!holds) {
                findings.add(rule + " " + at);
            }
        }
    }

    /** An interval of a GTID set. */
    record Interval(String sid, long first, long last) {
        static List<Interval> of(String text) {
            List<Interval> found = new ArrayList<>();
            for (String part : text.replaceAll("\\s", "").split(",")) {
                String[] parts = part.split(":");
                for (int number = 1; number < parts.length; number++) {
                    String[] ends = parts[number].split("-");
                    long first = Long.parseLong(ends[0]);
                    found.add(new Interval(parts[0], first, ends.length > 1 ? Long.parseLong(ends[1]) : first));
                }
            }
            return found;
        }
    }

    /** Checks each message, and puts the instance's state into the store. */
    static class Instances implements Processor<String, byte[], String, byte[]> {
        private final Map<String, Continuity> held = new HashMap<>();
        private ProcessorContext<String, byte[]> context;
        private KeyValueStore<String, byte[]> store;

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            this.context = context;
            this.store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<String, byte[]> message) {
            String name = message.key();
            try {
                Continuity checks = held.get(name);
                if (checks == null) {
                    byte[] saved = store.get(name);
                    checks = saved == null ? new Continuity() : JSON.readValue(saved, Continuity.class);
                    held.put(name, checks);
                }
                byte[] result = checks.take(name, message.value());
                store.put(name, JSON.writeValueAsBytes(checks));
                if (result != null) {
                    context.forward(message.withValue(result));
                }
            } catch (Exception error) {
                throw new IllegalStateException(name, error);
            }
        }
    }

    /** Seconds of the machine's clock, as Python's time.monotonic. */
    static double now() {
        return System.nanoTime() / 1e9;
    }

    public static void main(String[] arguments) {
        String servers = arguments[0], topic = arguments[1], results = arguments[2], directory = arguments[3];
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(
            Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.ByteArray()
            ).withCachingEnabled()
        );
        builder.stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .process(Instances::new, STORE)
            .to(results, Produced.with(Serdes.String(), Serdes.ByteArray()));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, results);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, CHECKPOINT_MS);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "1");
        properties.put("auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> {
            if (now == State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
