// What an application does with ioredis over TLS: ioredis.cjs HOST:PORT DIRECTORY
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const Redis = require("ioredis");

const [host, port] = process.argv[2].split(":");
const file = (name) => fs.readFileSync(path.join(process.argv[3], name));

function connect(certificate) {
    const own = certificate
        ? { cert: file(`${certificate}.crt`), key: file(`${certificate}.key`) }
        : {};
    const tls = { ca: file("ca.crt"), servername: "localhost", ...own };
    return new Redis({ host, port: Number(port), tls, retryStrategy: () => null, lazyConnect: true,
        maxRetriesPerRequest: 0 });
}

async function isRefused(certificate) {
    const client = connect(certificate);
    client.on("error", () => {});
    try {
        await client.ping();
        return false;
    } catch {
        return true;
    } finally {
        client.disconnect();
    }
}

async function main() {
    const client = connect("client");
    assert.strictEqual(await client.ping(), "PONG");
    const value = Buffer.alloc(5_000_000, "v");
    await client.set("k", value);
    assert((await client.getBuffer("k")).equals(value));
    const pipeline = client.pipeline();
    for (let n = 0; n < 5000; n += 1) pipeline.incr("n");
    const replies = await pipeline.exec();
    assert.strictEqual(replies[4999][1], 5000);
    const [waiting, listening] = [connect("client"), connect("client")];
    const popped = waiting.blpop("l", 0);
    await listening.subscribe("c");
    const message = new Promise((resolve) => listening.on("message", (_, text) => resolve(text)));
    await client.rpush("l", "x");
    assert.deepStrictEqual(await popped, ["l", "x"]);
    await client.publish("c", "hi");
    assert.strictEqual(await message, "hi");
    assert(await isRefused(null), "without a certificate");
    assert(await isRefused("stranger"), "with a stranger's");
    for (const one of [client, waiting, listening]) await one.quit();
    console.log("all passed");
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
