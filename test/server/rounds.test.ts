import { expect, test } from 'vitest';
import { createRounds } from '../../src/server/rounds.ts';

const nextRound = () => new Promise<void>((resolve) => setImmediate(resolve));

test('whoever waits in one round of the event loop goes on together, behind what the round still does', async () => {
  const endOfRound = createRounds();
  const order: string[] = [];
  const wait = (name: string) => endOfRound().then(() => order.push(name));
  const [one, other] = [wait('one'), wait('other')];
  // Promises are of the same round, whichever of them comes last.
  await Promise.resolve();
  const late = wait('late');
  process.nextTick(() => order.push('the round'));
  await Promise.all([one, other, late]);
  expect(order).toEqual(['the round', 'one', 'other', 'late']);
});

test('whoever comes in the next round waits for the end of that one', async () => {
  const endOfRound = createRounds();
  const first = endOfRound();
  expect(endOfRound()).toBe(first);
  await first;
  const second = endOfRound();
  expect(second).not.toBe(first);
  let isOver = false;
  second.then(() => {
    isOver = true;
  });
  await Promise.resolve();
  expect(isOver).toBe(false);
  await nextRound();
  await nextRound();
  expect(isOver).toBe(true);
});
