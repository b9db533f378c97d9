import { expect, test } from 'vitest';
import { stringifyJson } from '../../src/contract/json.ts';
import { sampleData } from '../../src/server/sample-data.ts';

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 10, 20, 12);

type SampleOrder = { placedAt: string; status: string; animals: number[]; amount: unknown };
const { pets, orders } = sampleData(NOW);
const sampleOrders = orders as SampleOrder[];

test('sample orders have an amount with two decimals, and animals whose status fits the order', () => {
  const statusOf = new Map(pets.map(({ id, status }) => [Number(id), status]));
  const animalStatus: Record<string, string> = {
    placed: 'available',
    approved: 'pending',
    delivered: 'sold',
  };
  for (const { status, animals, amount } of sampleOrders) {
    expect(stringifyJson(amount)).toMatch(/^\d+\.\d\d$/);
    expect(animals.map((id) => statusOf.get(id))).toEqual(animals.map(() => animalStatus[status]));
  }
  const ordered = sampleOrders.flatMap(({ animals }) => animals);
  expect(new Set(ordered).size).toBe(ordered.length);
});

test('the last sample order was placed now, and each of the 13 days before has an order, wherever the day starts', () => {
  const times = sampleOrders.map(({ placedAt }) => Date.parse(placedAt));
  expect(times.at(-1)).toBe(NOW);
  for (let start = NOW - 13 * DAY; start <= NOW - DAY; start += DAY / 24)
    expect(times.some((time) => time >= start && time < start + DAY)).toBe(true);
});
