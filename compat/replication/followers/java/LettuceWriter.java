// Writes by lettuce to the primary that Sentinels name, and reads at replicas where there are some:
// LettuceWriter.java SENTINEL,.. NAME KEY
// What it prints, and when it ends, is what the scenario `followers` asks of each such program.
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.masterreplica.MasterReplica;
import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;

public class LettuceWriter {
    static final int REPLICAS = 2;
    static final int WAIT_MS = 50;
    static final int PAUSE_MS = 3;

    static RedisURI uri(String sentinels, String name) {
        var uri = RedisURI.builder().withSentinelMasterId(name).withTimeout(Duration.ofSeconds(5));
        for (String address : sentinels.split(",")) {
            String[] parts = address.split(":");
            uri.withSentinel(parts[0], Integer.parseInt(parts[1]));
        }
        return uri.build();
    }

    static long write(RedisCommands<String, String> primary, String key, int number) {
        String member = Integer.toString(number);
        primary.sadd(key, member);
        long waited = primary.waitForReplication(REPLICAS, WAIT_MS);
        // Last, at the primary: another one, after a new connection, would not know the number.
        if (!primary.sismember(key, member)) {
            throw new RedisException("what was written is not there");
        }
        return waited;
    }

    public static void main(String[] args) throws Exception {
        AtomicBoolean isOver = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (IOException gone) {
                // An end, too.
            }
            isOver.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        RedisURI uri = uri(args[0], args[1]);
        RedisClient client = RedisClient.create(uri);
        var anywhere = MasterReplica.connect(client, StringCodec.UTF8, uri);
        anywhere.setReadFrom(ReadFrom.REPLICA_PREFERRED);
        var primary = client.connect().sync();
        for (int number = 0; !isOver.get(); number++) {
            try {
                long waited = write(primary, args[2], number);
                anywhere.sync().scard(args[2]);
                System.out.println("written " + number + " " + waited);
            } catch (RedisException error) {
                System.out.println("failed " + String.valueOf(error).replace('\n', ' '));
            }
            Thread.sleep(PAUSE_MS);
        }
        client.shutdown();
        System.out.println("end");
    }
}
