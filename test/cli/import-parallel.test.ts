import { describe, expect, test } from 'vitest';
import { importing, limited, manyRows, type Options, resultsIn } from '../helpers/import-commands.ts';

/** A run of 40 rows at a service that reports its rate limit. */
const many = (options: Options = {}) => importing({ text: manyRows(40), remaining: 1_000, ...options });
const NAMES = Array.from({ length: 40 }, (_, i) => `animal ${i}`);
const LINES = Array.from({ length: 40 }, (_, i) =>
  expect.stringMatching(`^${i + 2} added \\d+ animal ${i}$`),
);

/** Holds responses until `count` requests are waiting, and then releases all, latest first. */
function gate(count: number) {
  const waiting: (() => void)[] = [];
  let isOpen = false;
  return async () => {
    if (isOpen) return;
    const released = new Promise<void>((resolve) => waiting.push(resolve));
    isOpen = waiting.length === count;
    if (isOpen) for (const release of waiting.reverse()) release();
    await released;
  };
}

/** The largest number of rows whose outcome a crash could have left open. A crash keeps or loses a line as a whole. */
function mostOpen(ledger: string): number {
  const open = new Set<number>();
  let most = 0;
  for (const line of ledger.trimEnd().split('\n').slice(1)) {
    for (const { kind, seq } of JSON.parse(line)) {
      if (kind === 'sent') open.add(seq);
      else open.delete(seq);
    }
    most = Math.max(most, open.size);
  }
  return most;
}

describe('a run with several rows in flight', () => {
  test('has 16 rows in flight, also in the ledger, and prints the results in the order of the rows', async () => {
    const { service, add, ledger } = await many();
    service.beforeReply = gate(16);
    const { code, stdout, stderr } = await add();
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'note: added 40 of 40 rows\n' });
    expect(resultsIn(stdout).split(', ')).toEqual(LINES);
    expect([service.mostInFlight, mostOpen(await ledger())]).toEqual([16, 16]);
    expect(service.keyCount()).toBe(40);
  });

  test('starts no row after a failure that concerns all rows, and records those in flight', async () => {
    const { service, run } = await many();
    service.beforeReply = gate(16);
    await run({ replies: { 'animal 3': 401 }, code: 4, stdout: '' });
    expect(service.names().length).toBeLessThan(40);
    await run({});
    // Only animal 3 was sent twice, so the first run has recorded the results of all rows that were in flight.
    expect(service.names().sort()).toEqual([...NAMES, 'animal 3'].sort());
  });

  test('reports that rows may have been added after Ctrl-C, and the next run repeats them with their keys', async () => {
    const { service, run } = await many();
    let held = 0;
    service.beforeReply = async (name) => {
      if (name === 'animal 0') return;
      if (++held === 16) service.interrupt();
      await new Promise(() => {});
    };
    await run({
      code: 130,
      keys: 17,
      stderr: [
        'added 1 of 40 rows; 16 may have been added; to continue',
        'error: interrupted; the rows that were being sent may have been added\n',
        'no row is added twice; to continue: pets import FILE\n',
      ],
    });
    service.beforeReply = async () => {};
    await run({ keys: 40 });
    expect(service.names().slice(17).sort()).toEqual(NAMES.slice(1).sort());
  });

  test.each<[string, Options, number]>([
    ['half of 14 remaining requests', { remaining: 14 }, 7],
    ['one row if the service reports a negative number', { remaining: -3 }, 1],
    ['one row if the rate limit is not known', { remaining: undefined }, 1],
    ['one row without idempotency keys', { supportsKeys: false }, 1],
  ])('has in flight at most %s', async (_, options, most) => {
    const { service, run } = await many(options);
    service.beforeReply = gate(most);
    await run({});
    expect(service.mostInFlight).toBe(most);
  });

  test('sends the other rows one by one after a 429', async () => {
    const { service, run } = await many();
    const hold = gate(16);
    service.beforeReply = async (name) => {
      // At most 32 rows were started before the command got the 429.
      if (name === 'animal 35') service.mostInFlight = 0;
      await hold();
    };
    await run({ replies: { 'animal 2': [limited(1)] }, keys: 40 });
    expect(service.mostInFlight).toBe(1);
    expect(service.names()).toHaveLength(41);
  });
});
