// Follow the log by its Kafka topic, from a language that is not Python.
//
// One file, run as it is by Java 17 or later, with the jars of kafka-clients, avro and jackson:
//
//   java -cp "JARS/*" FollowTopic.java BROKERS CMS_URL UP_TO_EPOCH
//
// It reads the topic from its beginning, puts the entries in order, checks that each one continues
// the chain of hashes, decodes it by the Avro schema that its fingerprint names, and prints a line.
// A topic is a hint and never the truth: an entry may come twice, late or not at all. Where one is
// missing this program asks the CMS for it, as any consumer has to.

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class FollowTopic {
    static final String TOPIC = "ringlog.log.v1";
    static final int HEADER_BYTES = 10;  // Avro single objects: C3 01, then the fingerprint.
    static final int WAITING_MAX = 10_000;
    static final Duration PATIENCE = Duration.ofSeconds(60);

    final HttpClient http = HttpClient.newHttpClient();
    final ObjectMapper json = new ObjectMapper();
    final Map<String, Schema> schemas = new HashMap<>();
    final TreeMap<Long, Arrived> waiting = new TreeMap<>();
    final String cms;
    byte[] hash = new byte[32];
    long applied = 0;

    /** What came, and the hash that its header claims. */
    record Arrived(byte[] payload, String hash) {}

    FollowTopic(String cms) {
        this.cms = cms;
    }

    public static void main(String[] words) throws Exception {
        new FollowTopic(words[1]).follow(words[0], Long.parseLong(words[2]));
    }

    void follow(String brokers, long upTo) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", brokers);
        settings.put("enable.auto.commit", "false");
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            // One partition, read by everybody from the start: no group, no offsets to keep.
            List<TopicPartition> all = List.of(new TopicPartition(TOPIC, 0));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (applied < upTo && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    take(record);
                }
                applyWhatFollows();
            }
        }
        if (applied < upTo) {
            throw new IOException("epoch " + upTo + " did not come; the last one is " + applied);
        }
        System.out.println("followed to epoch " + applied + ", hash " + hex(hash));
    }

    void take(ConsumerRecord<byte[], byte[]> record) throws Exception {
        // The key is the epoch in decimal; the offset means nothing.
        long epoch = Long.parseLong(new String(record.key(), StandardCharsets.US_ASCII));
        if (epoch > applied) {
            byte[] claimed = record.headers().lastHeader("hash").value();
            String hash = new String(claimed, StandardCharsets.US_ASCII);
            waiting.put(epoch, new Arrived(record.value(), hash));
        }
        if (waiting.size() >= WAITING_MAX) {
            applyWhatFollows();
        }
    }

    void applyWhatFollows() throws Exception {
        while (!waiting.isEmpty()) {
            long next = applied + 1;
            Arrived arrived = waiting.remove(next);
            // A gap: later ones are here already, and the CMS has what the topic has not.
            hash = arrived == null ? fetched(next) : checked(next, arrived);
            applied = next;
        }
    }

    /** The hash of an entry whose bytes and predecessor it vouches for. */
    byte[] checked(long epoch, Arrived arrived) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        digest.update(hash);
        byte[] computed = digest.digest(arrived.payload());
        if (!hex(computed).equals(arrived.hash())) {
            throw new IOException("epoch " + epoch + " does not continue what came before");
        }
        GenericRecord entry = decoded(arrived.payload());
        Schema kind = ((GenericRecord) entry.get("transformation")).getSchema();
        print(epoch, kind.getName(), String.valueOf(entry.get("actor")), hex(computed));
        return computed;
    }

    byte[] fetched(long epoch) throws Exception {
        JsonNode entry = ask("/v1/log/" + epoch);
        if (!entry.get("previous_hash").asText().equals(hex(hash))) {
            throw new IOException("epoch " + epoch + " does not continue what came before");
        }
        String found = entry.get("hash").asText();
        print(epoch, entry.get("kind").asText(), entry.get("actor").asText(), found);
        return HexFormat.of().parseHex(found);
    }

    GenericRecord decoded(byte[] payload) throws Exception {
        String fingerprint = hex(Arrays.copyOfRange(payload, 2, HEADER_BYTES));
        Schema schema = schemas.get(fingerprint);
        if (schema == null) {
            JsonNode answer = ask("/v1/schemas/" + fingerprint);
            schema = new Schema.Parser().parse(answer.get(fingerprint).toString());
            schemas.put(fingerprint, schema);
        }
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
        int length = payload.length - HEADER_BYTES;
        return reader.read(
                null, DecoderFactory.get().binaryDecoder(payload, HEADER_BYTES, length, null));
    }

    JsonNode ask(String path) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(cms + path))
                .timeout(Duration.ofSeconds(10)).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException(path + " is answered with " + answer.statusCode());
        }
        return json.readTree(answer.body());
    }

    static void print(long epoch, String kind, String actor, String hash) {
        System.out.println(epoch + " " + kind + " by " + actor + " " + hash.substring(0, 12));
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
