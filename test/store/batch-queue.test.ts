import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { BatchQueue, type BatchQueueOptions } from '../../src/store/batch-queue.ts';
import { StoreUnavailableError } from '../../src/store/errors.ts';
import { gate } from '../helpers/gate.ts';
import { outcomes } from '../helpers/store-fixtures.ts';

/** A queue whose calls `respond` handles. By default, each result is the item times ten. */
function createQueue(
  respond: (items: readonly number[], call: number) => Promise<number[]> | number[] = timesTen,
  options: Partial<BatchQueueOptions<number, number>> = {},
) {
  const calls: (readonly number[])[] = [];
  const queue = new BatchQueue<number, number>({
    async run(items) {
      calls.push(items);
      return respond(items, calls.length);
    },
    ...options,
  });
  return { queue, calls };
}

const timesTen = (items: readonly number[]) => items.map((item) => item * 10);

test('items that are added during a call form the next call, and each gets its result', async () => {
  const first = gate();
  const { queue, calls } = createQueue(async (items, call) => {
    if (call === 1) await first.opened;
    return timesTen(items);
  });
  const added = [queue.add(1), queue.add(2)];
  await expect.poll(() => calls.length).toBe(1);
  added.push(queue.add(3), queue.add(4));
  first.open();
  expect(await outcomes(added)).toEqual([10, 20, 30, 40]);
  expect(calls.map(String)).toEqual(['1,2', '3,4']);
});

test('callers whose next items arrive in consecutive turns after a call are all in the next call', async () => {
  const { queue, calls } = createQueue();
  const callers = [1, 2, 3].map(async (turns) => {
    for (let item = 1; item <= 3; item++) {
      await queue.add(item);
      for (let turn = 1; turn <= turns; turn++) await setImmediate();
    }
  });
  await Promise.all(callers);
  expect(calls.map(String)).toEqual(['1,1,1', '2,2,2', '3,3,3']);
});

test('an item that waits during a call is in the next call with those of the callers that add another one', async () => {
  const first = gate();
  const { queue, calls } = createQueue(async (items, call) => {
    if (call === 1) await first.opened;
    return timesTen(items);
  });
  const again = queue.add(1).then(() => setImmediate().then(() => queue.add(3)));
  await expect.poll(() => calls.length).toBe(1);
  const other = queue.add(2);
  for (let turn = 1; turn <= 8; turn++) await setImmediate();
  first.open();
  await Promise.all([again, other]);
  expect(calls.map(String)).toEqual(['1', '2,3']);
});

test('a call begins after a few turns, even if every turn adds an item', async () => {
  const { queue, calls } = createQueue();
  for (let item = 1; item <= 10; item++) {
    queue.add(item);
    await setImmediate();
  }
  expect(calls[0]).toEqual([1, 2, 3, 4, 5]);
});

test.each([1, 2])(
  'at most %i calls run at a time, each with at most as many items as maxNextItems says',
  async (parallel) => {
    const open = gate();
    const { queue, calls } = createQueue(
      async (items) => {
        await open.opened;
        return timesTen(items);
      },
      { parallel, maxNextItems: () => 3 },
    );
    const added: Promise<number>[] = [];
    for (let item = 1; item <= 6; item++) {
      added.push(queue.add(item));
      for (let turn = 1; turn <= 3; turn++) await setImmediate();
    }
    expect(calls).toHaveLength(parallel);
    open.open();
    expect(await outcomes(added)).toEqual([10, 20, 30, 40, 50, 60]);
    expect(calls).toHaveLength(parallel + 2);
    expect(calls.flat()).toEqual([1, 2, 3, 4, 5, 6]);
  },
);

test('if a call has an unknown outcome, its items get that outcome, and the waiting items are not done', async () => {
  const first = gate();
  const { queue, calls } = createQueue(async () => {
    await first.opened;
    throw new StoreUnavailableError('the database is away', 'start it', { outcome: 'unknown' });
  });
  const added = [queue.add(1)];
  await expect.poll(() => calls.length).toBe(1);
  added.push(queue.add(2), queue.add(3));
  first.open();
  expect(await outcomes(added)).toEqual(['unknown', 'not_done', 'not_done']);
  expect(calls).toEqual([[1]]);
});
