import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { StoreError, StoreUnavailableError, StoreUnwritableError } from '../../../src/store/errors.ts';
import { BatchQueue, type BatchQueueOptions } from '../../../src/store/postgres/batch-queue.ts';
import { gate } from '../../helpers/gate.ts';
import { outcomes } from '../../helpers/postgres/outcomes.ts';

const PLACE = 'postgres://shop@db.example/pets';

const unavailable = (outcome: 'not_done' | 'unknown') =>
  new StoreUnavailableError('the database is away', 'start it', { outcome });

/** A queue whose calls `respond` handles. By default, each result is the item times ten. */
function createQueue(
  respond: (items: number[], call: number) => Promise<number[]> | number[] = timesTen,
  options: Partial<BatchQueueOptions<number, number>> = {},
) {
  const calls: number[][] = [];
  const queue = new BatchQueue<number, number>({
    place: PLACE,
    async run(items) {
      calls.push(items);
      return respond(items, calls.length);
    },
    ...options,
  });
  return { queue, calls };
}

const timesTen = (items: number[]) => items.map((item) => item * 10);

test('an item is sent, however soon it is added after the call before it', async () => {
  for (let steps = 0; steps < 10; steps++) {
    const { queue, calls } = createQueue();
    await queue.add(1);
    for (let step = 0; step < steps; step++) await undefined;
    await queue.add(2);
    expect(calls).toEqual([[1], [2]]);
  }
});

test('items that are added in one turn, or during a call, form the next call, and each gets its result', async () => {
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

test('a call has at most maxBatch items', async () => {
  const { queue, calls } = createQueue(timesTen, { maxBatch: 2 });
  await Promise.all([1, 2, 3, 4, 5].map((item) => queue.add(item)));
  expect(Math.max(...calls.map(({ length }) => length))).toBe(2);
  expect(calls.flat()).toEqual([1, 2, 3, 4, 5]);
});

test.each([
  ['a fast network', 0.2, 1, 1],
  ['a slow network', 7, 1, 3],
  ['a fast network, and calls that the database can run at a time', 0.2, 3, 3],
])(
  'while no call has a result, others follow it at a distance: with %s',
  async (_, roundTrip, parallel, expected) => {
    const open = gate();
    let now = 0;
    const { queue, calls } = createQueue(
      async (items) => {
        await open.opened;
        return timesTen(items);
      },
      { roundTrip: () => roundTrip, parallel, elapsed: () => now },
    );
    const added: Promise<number>[] = [];
    for (let item = 1; item <= 6; item++) {
      added.push(queue.add(item));
      await setImmediate();
      if (item % 2 === 1) now += 3;
    }
    expect(calls).toHaveLength(expected);
    open.open();
    expect(await outcomes(added)).toEqual([10, 20, 30, 40, 50, 60]);
    expect(calls.flat()).toEqual([1, 2, 3, 4, 5, 6]);
  },
);

test.each(['not_done', 'unknown'] as const)(
  'if a call fails with outcome %s, its items get the outcome, and the waiting items are not done',
  async (outcome) => {
    const first = gate();
    const { queue, calls } = createQueue(async () => {
      await first.opened;
      throw unavailable(outcome);
    });
    const added = [queue.add(1)];
    await expect.poll(() => calls.length).toBe(1);
    added.push(queue.add(2), queue.add(3));
    first.open();
    expect(await outcomes(added)).toEqual([outcome, 'not_done', 'not_done']);
    expect(calls).toEqual([[1]]);
  },
);

test('a full disk rejects only the items of the call', async () => {
  const { queue } = createQueue(
    (items) => {
      if (items.includes(1)) throw new StoreUnwritableError('disk full', 'free some space');
      return timesTen(items);
    },
    { maxBatch: 1 },
  );
  expect(await outcomes([queue.add(1), queue.add(2)])).toEqual([StoreUnwritableError, 20]);
});

test('close completes the items that were added, and rejects later ones', async () => {
  const first = gate();
  const { queue } = createQueue(
    async (items) => {
      await first.opened;
      return timesTen(items);
    },
    { maxBatch: 1 },
  );
  const added = [queue.add(1), queue.add(2)];
  const closed = queue.close();
  const late = outcomes([queue.add(3)]);
  first.open();
  const completed: number[] = [];
  for (const each of added) each.then((result) => completed.push(result));
  await closed;
  expect(completed).toEqual([10, 20]);
  expect(await late).toEqual([StoreError]);
});
