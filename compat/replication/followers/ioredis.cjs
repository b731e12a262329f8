// Writes by ioredis to the primary that Sentinels name: ioredis.cjs SENTINEL,SENTINEL,.. NAME KEY
// What it prints, and when it ends, is what the scenario `followers` asks of each such program.
"use strict";
const Redis = require("ioredis");

const [addresses, name, key] = process.argv.slice(2);
const sentinels = addresses.split(",").map((address) => {
    const [host, port] = address.split(":");
    return { host, port: Number(port) };
});
const REPLICAS = 2;
const WAIT_MS = 50;
const PAUSE_MS = 3;

function tell(...words) {
    process.stdout.write(`${words.join(" ").replaceAll("\n", " ")}\n`);
}

async function write(client, number) {
    const replies = await client.pipeline()
        .sadd(key, number).wait(REPLICAS, WAIT_MS).sismember(key, number).exec();
    for (const [error] of replies) if (error) throw error;
    if (replies[2][1] !== 1) throw new Error("what was written is not there");
    tell("written", number, replies[1][1]);
}

async function main() {
    const client = new Redis({ sentinels, name, connectTimeout: 5000, sentinelCommandTimeout: 5000,
        commandTimeout: 5000 });
    client.on("error", () => {});
    let isOver = false;
    process.stdin.on("end", () => { isOver = true; }).resume();
    for (let number = 0; !isOver; number += 1) {
        await write(client, number).catch((error) => tell("failed", error.message));
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    client.disconnect();
    tell("end");
}

main();
