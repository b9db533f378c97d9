// This process adds `count` animals of /animals.csv. Instead of calling a service, it appends the line number and the
// idempotency key of each row to the file `sent`. With the mode `hold`, it keeps the locks until it is killed.
import { appendFileSync } from 'node:fs';
import { idempotencyKeyOf } from '../../src/cli/bulk/ledger.ts';
import { openRun } from '../../src/cli/bulk/open-run.ts';
import { added, animals, inputOf, intent, pendingOf, RUN_OPTIONS } from './bulk.ts';

const [directory = '', count = '', sent = '', mode = ''] = process.argv.slice(2);
const print = (event: object) => process.stdout.write(`${JSON.stringify(event)}\n`);

try {
  const run = await openRun(inputOf(animals(Number(count))), { ...RUN_OPTIONS, directory, now: Date.now() });
  print({ isOpen: true, isResumed: run.known !== undefined });
  // The timer keeps the process running. The callback references `run.file`, because Node 26 reports an error if an
  // open file is garbage-collected.
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
