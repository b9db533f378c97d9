import { parseJson } from '../contract/json.ts';
import type { PetStatus } from '../contract/schemas.ts';
import type { Seed } from '../store/store.ts';

/** One category per line, with its id, name and animals. After an animal, `*` means sold and `~` means pending. */
const SAMPLES = `
1 dogs: Rex, Bella, Zoë ~, Bruno, Lady Barkington III, Fürst Pückler, Señor Guau *, Hachikō, Biscuit 🐶, Old Shep *
2 cats: Minka, Chloé, Señorita Bigotes ~, Tom, Smudge, Łapka, 三毛 *, Pünktchen, Dr. Whiskers, Ångström 🐈, Duchess
3 rabbits: Klopfer, Clover, Poilu ~, Hazel, Fiver *, Mümmelmann
4 hamsters and guinea pigs: Hammy, Nibbles ~, Popcorn & Peanut, Krümel, Wheely McWheelface, Choupette *
5 birds: Tweety, Kakadu Karl, Papageno 🦜, Éclair, Pan Tadeusz ~, Blue, Nachtigall *, Coco
6 fish: Guppy (shoal of 12) 🐟, Neon tetra, Goldie *, Wanda, Discus, Señor Burbujas ~, Bubbles
7 reptiles: Schildi 🐢, Iggy, Kaa ~, Rango, Monty *, Gecko Gordon
8 frogs and newts: Quak, Freddo *, Axel Otl 🦎, Jeremy ~
9 horses and ponies: Fjörð, Polly, Black Beauty *, Pferdinand ~
42 others: Schrödinger's cat, Hedgehog "Spike", Stick insects; a handful, Alpaca Beyoncé 🦙 *`;

const STATUS_BY_SUFFIX: Readonly<Record<string, PetStatus>> = { '*': 'sold', '~': 'pending' };

const ORDER_STATUS = { available: 'placed', pending: 'approved', sold: 'delivered' } as const;

const customers = ['Ms Appleby', 'Familie Grünwald', 'D. Ó Súilleabháin', 'Żaneta N.', '佐藤さん'];

/** When the last sample order is placed, if no other time is given. Examples and tests then have fixed times. */
const EXAMPLE_TIME = Date.UTC(2026, 10, 8, 12);

/** The time between two orders, in minutes. It is less than a day, so that every day of the last two weeks has orders. */
const MINUTES_BETWEEN_ORDERS = 1_013;

/**
 * The sample data of `pets serve --seed`: animals of every status in several categories, and some orders.
 *
 * @param now when the last order is placed, in milliseconds since the epoch
 */
export function sampleData(now = EXAMPLE_TIME): Seed {
  const pets = [...SAMPLES.matchAll(/^(\d+) .*: (.*)$/gm)]
    .flatMap(([, categoryId = '', animals = '']) =>
      animals.split(', ').map((animal) => ({ categoryId: BigInt(categoryId), ...parseAnimal(animal) })),
    )
    .map((pet, i) => ({ id: BigInt(i + 1), ...pet }));
  const available = pets.filter(({ status }) => status === 'available');
  const others = pets.filter(({ status }) => status !== 'available');
  const ordered = [
    ...groupNeighbors(others),
    // The status of an animal does not change before its order is approved.
    ...[0, 2, 4, 6].map((i) => available.slice(i, i + 2)),
  ];
  const orders = ordered.map((animals, i) => ({
    id: 1001 + i,
    placedAt: new Date(placedBefore(now, ordered.length - 1 - i)).toISOString(),
    status: ORDER_STATUS[animals[0]?.status ?? 'available'],
    customer: customers[i % customers.length],
    animals: animals.map(({ id }) => id),
    amount: parseJson(formatCents(animals.reduce((cents, { id }) => cents + priceOf(id), 0n))),
  }));
  return { pets, orders };
}

/** Puts animals into one order if they follow each other and have the same status. */
function groupNeighbors<Animal extends { status: PetStatus }>(animals: readonly Animal[]): Animal[][] {
  const groups: Animal[][] = [];
  for (const animal of animals) {
    const last = groups.at(-1);
    if (last?.[0]?.status === animal.status) last.push(animal);
    else groups.push([animal]);
  }
  return groups;
}

/** The time of an order that was placed `count` orders before the last one, in whole minutes. */
const placedBefore = (now: number, count: number): number =>
  (Math.floor(now / 60_000) - count * MINUTES_BETWEEN_ORDERS) * 60_000;

/** A price in cents. The prices of the sample animals differ, and are from 9.90 to 250. */
const priceOf = (id: bigint): bigint => 990n + ((id * 1_735n) % 24_000n);

const formatCents = (cents: bigint): string => `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`;

function parseAnimal(text: string): { name: string; status: PetStatus } {
  const status = STATUS_BY_SUFFIX[text.slice(-1)];
  return status ? { name: text.slice(0, -2), status } : { name: text, status: 'available' };
}
