// What an application does with jedis over TLS: Client.java HOST:PORT DIRECTORY
import java.io.FileInputStream;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;

public class Client {
    static final char[] PASSWORD = "secret".toCharArray();

    static SSLContext context(Path files, boolean showsOwn) throws Exception {
        KeyStore roots = KeyStore.getInstance("PKCS12");
        roots.load(null, null);
        try (FileInputStream file = new FileInputStream(files.resolve("ca.crt").toFile())) {
            var certificates = CertificateFactory.getInstance("X.509");
            roots.setCertificateEntry("ca", certificates.generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(roots);
        var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        if (showsOwn) {
            try (FileInputStream file = new FileInputStream(files.resolve("client.p12").toFile())) {
                own.load(file, PASSWORD);
            }
        }
        keys.init(own, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    static Jedis connect(String[] args, boolean showsOwn) throws Exception {
        SSLContext context = context(Path.of(args[1]), showsOwn);
        var config = DefaultJedisClientConfig.builder().ssl(true).timeoutMillis(120_000)
            .sslSocketFactory(context.getSocketFactory()).build();
        return new Jedis(HostAndPort.from(args[0]), config);
    }

    static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }

    public static void main(String[] args) throws Exception {
        try (Jedis client = connect(args, true)) {
            check(client.ping().equals("PONG"), "no answer");
            byte[] value = new byte[5_000_000];
            Arrays.fill(value, (byte) 'v');
            client.set("k".getBytes(), value);
            check(Arrays.equals(client.get("k".getBytes()), value), "the value is another");
            Pipeline pipeline = client.pipelined();
            Response<Long> last = null;
            for (int n = 0; n < 5000; n++) last = pipeline.incr("n");
            pipeline.sync();
            check(last.get() == 5000, "a count is wrong");
        }
        boolean isRefused = false;
        try (Jedis client = connect(args, false)) {
            client.ping();
        } catch (redis.clients.jedis.exceptions.JedisConnectionException refused) {
            isRefused = true;
        }
        check(isRefused, "without a certificate");
        System.out.println("all passed");
    }
}
