// A process of its own that runs a job: writes each row and its key to the file `sent` in place of a service, and lives
// until it is killed where it is to `hold` the job.
import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { openJob } from '../../src/cli/bulk/job.ts';
import { createSpool } from '../../src/cli/bulk/spool.ts';
import { added, animals, HASH, sha256 } from './bulk-rows.ts';

const [directory = '', count = '', sent = '', mode = ''] = process.argv.slice(2);
const say = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`);
// Held on to: Node 26 takes an open file that is collected as garbage for an error.
const held: unknown[] = [];

const options = {
  directory,
  baseUrl: 'http://127.0.0.1:7387/v1',
  source: { name: 'animals.csv', path: '/animals.csv' },
  restart: false,
  skipAdded: false,
  skipCommand: 'pets add --from animals.csv --skip-added',
  clock: Date,
  random: randomBytes,
};
try {
  const spool = await createSpool(options);
  for (const [i, pet] of animals(Number(count)).entries()) await spool.write({ line: i + 2, pet });
  const job = await openJob(spool, sha256(count), options);
  held.push(job);
  say({ has: true, resumed: job.resumed, pid: process.pid });
  if (mode === 'hold') setInterval(() => {}, 1000);
  else {
    for await (const { row, idempotencyKey } of job.pending()) {
      await job.sending(row, { apiKeyHash: HASH });
      appendFileSync(sent, `${row} ${idempotencyKey}\n`);
      await job.settle(row, added(row));
      appendFileSync(sent, `${row} settled\n`);
    }
    await job.finish();
    await job.close();
    say({ finished: true });
  }
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  say({ has: false, message, code });
}
