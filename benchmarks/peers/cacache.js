// npm's cacache behind a pipe: a line of JSON and then its bytes in, a line of JSON and its bytes out.
const [, , modulePath, cache] = process.argv;
const cacache = require(modulePath);

async function answer(asked, data) {
  if (asked.op === "put") {
    const integrity = await cacache.put(cache, asked.key, data);
    const found = await cacache.get.info(cache, asked.key);
    return [{ integrity: String(integrity), path: found.path }, Buffer.alloc(0)];
  }
  if (asked.op === "get") return [{}, (await cacache.get(cache, asked.key)).data];
  const report = await cacache.verify(cache);
  return [{ bad: report.badContentCount + report.missingContent }, Buffer.alloc(0)];
}

async function main() {
  let held = [], size = 0, asked = null;
  for await (const chunk of process.stdin) {
    held.push(chunk);
    size += chunk.length;
    for (;;) {
      if (asked === null) {
        const all = Buffer.concat(held), end = all.indexOf(10);
        if (end < 0) break;
        asked = JSON.parse(all.subarray(0, end));
        held = [all.subarray(end + 1)];
        size = held[0].length;
      }
      if (size < asked.bytes) break;
      const all = Buffer.concat(held);
      const [said, data] = await answer(asked, all.subarray(0, asked.bytes));
      held = [all.subarray(asked.bytes)];
      size = held[0].length;
      asked = null;
      process.stdout.write(JSON.stringify({ ...said, bytes: data.length }) + "\n");
      process.stdout.write(data);
    }
  }
}

main();
