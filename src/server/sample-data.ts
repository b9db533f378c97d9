import type { PetStatus } from '../contract/schemas.ts';
import type { Seed } from '../store/store.ts';

/** Sample animals by category, separated by `, `. A suffix is the status: `*` is sold, `~` is pending. */
const samples: readonly [categoryId: bigint, animals: string][] = [
  // Dogs
  [
    1n,
    'Rex, Bella, Zoë ~, Bruno, Lady Barkington III, Fürst Pückler, Señor Guau *, Hachikō, Biscuit 🐶, Old Shep *',
  ],
  // Cats
  [
    2n,
    'Minka, Chloé, Señorita Bigotes ~, Tom, Smudge, Łapka, 三毛 *, Pünktchen, Dr. Whiskers, Ångström 🐈, Duchess',
  ],
  // Rabbits
  [3n, 'Klopfer, Clover, Poilu ~, Hazel, Fiver *, Mümmelmann'],
  // Hamsters and guinea pigs
  [4n, 'Hammy, Nibbles ~, Popcorn & Peanut, Krümel, Wheely McWheelface, Choupette *'],
  // Birds
  [5n, 'Tweety, Kakadu Karl, Papageno 🦜, Éclair, Pan Tadeusz ~, Blue, Nachtigall *, Coco'],
  // Fish
  [6n, 'Guppy (shoal of 12) 🐟, Neon tetra, Goldie *, Wanda, Discus, Señor Burbujas ~, Bubbles'],
  // Reptiles
  [7n, 'Schildi 🐢, Iggy, Kaa ~, Rango, Monty *, Gecko Gordon'],
  // Frogs and newts
  [8n, 'Quak, Freddo *, Axel Otl 🦎, Jeremy ~'],
  // Horses and ponies
  [9n, 'Fjörð, Polly, Black Beauty *, Pferdinand ~'],
  // Others
  [42n, `Schrödinger's cat, Hedgehog "Spike", Stick insects; a handful, Alpaca Beyoncé 🦙 *`],
];

const STATUS_BY_SUFFIX: Readonly<Record<string, PetStatus>> = { '*': 'sold', '~': 'pending' };

const customers = ['Ms Appleby', 'Familie Grünwald', 'D. Ó Súilleabháin', 'Żaneta N.', '佐藤さん'];

/** The sample data of `pets serve --seed`: animals of every status in several categories, and some orders. */
export function sampleData(): Seed {
  const pets = samples
    .flatMap(([categoryId, animals]) =>
      animals.split(', ').map((animal) => ({ categoryId, ...parseAnimal(animal) })),
    )
    .map((pet, i) => ({ id: BigInt(i + 1), ...pet }));
  const ordered = pets.filter(({ status }) => status !== 'available');
  const orders = ordered.map(({ id, status }, i) => ({
    id: 1001 + i,
    petId: id,
    quantity: 1,
    customer: customers[i % customers.length],
    placedAt: new Date(Date.UTC(2026, 9, 1 + i * 2, 9 + (i % 8), 30)).toISOString(),
    status: status === 'sold' ? 'delivered' : 'approved',
  }));
  return { pets, orders };
}

function parseAnimal(text: string): { name: string; status: PetStatus } {
  const status = STATUS_BY_SUFFIX[text.slice(-1)];
  return status ? { name: text.slice(0, -2), status } : { name: text, status: 'available' };
}
