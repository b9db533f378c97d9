// A process that adds animals from /animals.csv: appends each row and its idempotency key to the file `sent` instead of
// calling a service. With the mode `hold` it keeps the locks until it is killed.
import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { idempotencyKeyOf } from '../../src/cli/bulk/ledger.ts';
import { openRun } from '../../src/cli/bulk/open-run.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { API_KEY_HASH, added, animals, BASE_URL, inputOf, intent, pendingOf } from './bulk.ts';

const [directory = '', count = '', sent = '', mode = ''] = process.argv.slice(2);
const print = (event: object) => process.stdout.write(`${JSON.stringify(event)}\n`);

try {
  const run = await openRun(inputOf(animals(Number(count))), {
    directory,
    files: realFileSystem,
    now: Date.now(),
    random: randomBytes,
    baseUrl: BASE_URL,
    apiKeyHash: API_KEY_HASH,
    restart: false,
    skipAdded: false,
    skipCommand: '',
  });
  print({ isOpen: true, isResumed: run.known !== undefined });
  // The reference also keeps the file from being garbage-collected, which Node 26 reports as an error.
  if (mode === 'hold') setInterval(() => run.file.header, 1_000);
  else {
    for (const row of pendingOf(run)) {
      const key = idempotencyKeyOf(run.file.header, row, row.entry);
      await run.file.append({ ...intent(row), at: new Date().toISOString() });
      appendFileSync(sent, `${row.line} ${key}\n`);
      await run.file.append(added(row, BigInt(row.line)));
      appendFileSync(sent, `${row.line} settled\n`);
    }
    await run.close();
    print({ isFinished: true });
  }
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  print({ isOpen: false, message, code });
}
