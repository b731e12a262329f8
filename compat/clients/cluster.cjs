// ioredis' cluster client, done to a server with `cluster_mode emulated`: node cluster.cjs PORT.
"use strict";

const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function main(port) {
    const nodes = [{ host: "127.0.0.1", port }];
    const cluster = new Redis.Cluster(nodes, { scaleReads: "all", redisOptions: { db: 0 } });
    try {
        await cluster.mset("{a}1", "x", "{b}1", "y").catch((error) => {
            // The client itself refuses keys of two slots in one call.
            assert.match(error.message, /same slot/);
        });
        await Promise.all([...Array(200).keys()].map((n) => cluster.set(`key:${n}`, n)));
        const values = await Promise.all([...Array(200).keys()].map((n) => cluster.get(`key:${n}`)));
        assert.deepEqual(values, [...Array(200).keys()].map(String));
        const answers = await cluster.pipeline().set("{p}1", 1).incr("{p}1").get("{p}1").exec();
        assert.deepEqual(answers, [[null, "OK"], [null, 2], [null, "2"]]);
        assert.equal(await cluster.eval("return redis.call('get', KEYS[1])", 1, "key:7"), "7");
        const masters = cluster.nodes("master");
        assert.equal(masters.length, 1);
        assert.equal(masters[0].options.port, port);
    } finally {
        cluster.disconnect();
    }
}

main(Number(process.argv[2])).catch((error) => {
    console.error(error);
    process.exit(1);
});
