import { expect, test } from 'vitest';
import { sampleData } from '../../src/server/sample-data.ts';

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 10, 20, 12);

const orders = sampleData(NOW).orders as { placedAt: string }[];

test('the last sample order was placed now, and each of the 13 days before has an order, wherever the day starts', () => {
  const times = orders.map(({ placedAt }) => Date.parse(placedAt));
  expect(times.at(-1)).toBe(NOW);
  for (let start = NOW - 13 * DAY; start <= NOW - DAY; start += DAY / 24)
    expect(times.some((time) => time >= start && time < start + DAY)).toBe(true);
});
