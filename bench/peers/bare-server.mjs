// A minimal server. It sends a constant page of 1.5 KB, and syncs the body of a POST before it responds.
import { open, unlink } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const page = JSON.stringify(
  Array.from({ length: 20 }, (_, i) => ({
    id: i + 1,
    name: `Animal ${i}`,
    categoryId: 1,
    status: 'available',
  })),
);
const path = join(tmpdir(), `bare-${process.pid}`);
const file = await open(path, 'a');
// Delete the name now, so that the file disappears when the process ends. Writes still reach the disk.
await unlink(path);
process.on('SIGTERM', () => process.exit());

/** Requests that wait for the next batch while a sync is running. */
let waiting = [];
let isSyncing = false;

async function sync() {
  isSyncing = true;
  while (waiting.length > 0) {
    const batch = waiting;
    waiting = [];
    await file.write(batch.map(({ body }) => `${body}\n`).join(''));
    await file.datasync();
    for (const { body, response } of batch) send(response, 201, body);
  }
  isSyncing = false;
}

function send(response, status, body) {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

createServer((request, response) => {
  if (request.method === 'GET') return send(response, 200, page);
  let body = '';
  request.on('data', (chunk) => {
    body += chunk;
  });
  request.on('end', () => {
    waiting.push({ body, response });
    if (!isSyncing) sync();
  });
}).listen(0, '127.0.0.1', function listening() {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${this.address().port}/v1` }));
});
