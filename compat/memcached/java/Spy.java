import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;

/**
 * What programs do with spymemcached, by both protocols, done to HOST:PORT; the server's data is
 * lost. Exit code 1 when a check fails; memcached 1.6.18 passes all.
 */
public class Spy {
  private static int passed;
  private static int failed;

  private static void equal(String what, Object got, Object expected) {
    if (Objects.equals(got, expected)) {
      passed++;
    } else {
      failed++;
      System.out.println("FAILED " + what + ": expected " + expected + ", got " + got);
    }
  }

  private static void check(MemcachedClient c) throws Exception {
    c.flush().get();
    equal("set", c.set("k", 0, "value").get(), true);
    equal("get", c.get("k"), "value");
    equal("get missing", c.get("missing"), null);
    String large = "x".repeat(100_000);
    equal("set large", c.set("large", 0, large).get(), true);
    equal("get large", c.get("large"), large);
    equal("add", c.add("k", 0, "other").get(), false);
    equal("replace", c.replace("k", 0, "second").get(), true);
    equal("replace missing", c.replace("missing", 0, "x").get(), false);
    equal("append", c.append("k", "+").get(), true);
    equal("prepend", c.prepend("k", "-").get(), true);
    equal("both", c.get("k"), "-second+");
    CASValue<Object> one = c.gets("k");
    equal("cas", c.cas("k", one.getCas(), "third"), CASResponse.OK);
    equal("cas again", c.cas("k", one.getCas(), "fourth"), CASResponse.EXISTS);
    equal("cas missing", c.cas("missing", one.getCas(), "x"), CASResponse.NOT_FOUND);
    equal("incr makes", c.incr("n", 5, 10), 10L);
    equal("incr", c.incr("n", 5), 15L);
    equal("decr", c.decr("n", 100), 0L);
    equal("incr missing", c.incr("missing", 1), -1L);
    equal("touch", c.touch("k", 1000).get(), true);
    equal("delete", c.delete("k").get(), true);
    equal("delete again", c.delete("k").get(), false);
    List<String> keys = new ArrayList<>();
    for (int number = 0; number < 500; number++) {
      keys.add("key:" + number);
      c.set("key:" + number, 0, number);
    }
    keys.add("missing");
    equal("many", c.getBulk(keys).size(), 500);
    equal("one of many", c.getBulk(keys).get("key:499"), 499);
    equal("versions", c.getVersions().size(), 1);
    equal("stats", c.getStats().values().iterator().next().containsKey("pid"), true);
  }

  public static void main(String[] arguments) throws Exception {
    java.util.logging.LogManager.getLogManager().reset();
    String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:11211";
    for (Protocol protocol : Protocol.values()) {
      ConnectionFactoryBuilder builder =
          new ConnectionFactoryBuilder().setProtocol(protocol).setOpTimeout(60_000);
      MemcachedClient client = new MemcachedClient(builder.build(), AddrUtil.getAddresses(address));
      try {
        check(client);
      } finally {
        client.shutdown(10, TimeUnit.SECONDS);
      }
    }
    System.out.println("spymemcached: " + passed + " passed, " + failed + " failed");
    System.exit(failed > 0 ? 1 : 0);
  }
}
