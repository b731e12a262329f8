// Writes by jedis to the primary that Sentinels name: JedisWriter.java SENTINEL,.. NAME KEY
// What it prints, and when it ends, is what the scenario `followers` asks of each such program.
import java.io.IOException;
import java.io.OutputStream;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisSentineled;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisException;

public class JedisWriter {
    static final int REPLICAS = 2;
    static final int WAIT_MS = 50;
    static final int PAUSE_MS = 3;

    static long write(JedisSentineled client, String key, int number) {
        try (var pipeline = client.pipelined()) {
            String member = Integer.toString(number);
            Response<Long> added = pipeline.sadd(key, member);
            Response<Long> waited = pipeline.waitReplicas(REPLICAS, WAIT_MS);
            Response<Boolean> isThere = pipeline.sismember(key, member);
            pipeline.sync();
            added.get();
            if (!isThere.get()) throw new JedisException("what was written is not there");
            return waited.get();
        }
    }

    public static void main(String[] args) throws Exception {
        Set<HostAndPort> sentinels = new HashSet<>();
        for (String address : args[0].split(",")) sentinels.add(HostAndPort.from(address));
        var config = DefaultJedisClientConfig.builder().timeoutMillis(5000).build();
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
        try (var client = new JedisSentineled(args[1], config, sentinels, config)) {
            for (int number = 0; !isOver.get(); number++) {
                try {
                    System.out.println("written " + number + " " + write(client, args[2], number));
                } catch (JedisException error) {
                    System.out.println("failed " + String.valueOf(error).replace('\n', ' '));
                }
                Thread.sleep(PAUSE_MS);
            }
        }
        System.out.println("end");
    }
}
