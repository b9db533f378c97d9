import { expect, test } from 'vitest';
import { sampleData } from '../../src/server/mocks.ts';

test('the last sample order was placed now, and each of the 13 days before has an order, wherever the day starts', () => {
  const [day, now] = [86_400_000, Date.UTC(2026, 10, 20, 12)];
  const orders = sampleData(now).orders as { placedAt: string }[];
  const times = orders.map(({ placedAt }) => Date.parse(placedAt));
  expect(times.at(-1)).toBe(now);
  for (let start = now - 13 * day; start <= now - day; start += day / 24)
    expect(times.some((time) => time >= start && time < start + day)).toBe(true);
});
