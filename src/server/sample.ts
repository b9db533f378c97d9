import type { PetStatus } from '../contract/schemas.ts';
import type { Seed } from '../store/store.ts';

/** The sample shop's categories; the specification knows only their numbers (2.6). */
const shelves: readonly { categoryId: bigint; animals: readonly string[] }[] = [
  // Dogs
  {
    categoryId: 1n,
    animals: [
      'Rex',
      'Bella',
      'Zoë ~',
      'Bruno',
      'Lady Barkington III',
      'Fürst Pückler',
      'Señor Guau *',
      'Hachikō',
      'Biscuit 🐶',
      'Old Shep *',
    ],
  },
  // Cats
  {
    categoryId: 2n,
    animals: [
      'Minka',
      'Chloé',
      'Señorita Bigotes ~',
      'Tom',
      'Smudge',
      'Łapka',
      '三毛 *',
      'Pünktchen',
      'Dr. Whiskers',
      'Ångström 🐈',
      'Duchess',
    ],
  },
  // Rabbits
  { categoryId: 3n, animals: ['Klopfer', 'Clover', 'Poilu ~', 'Hazel', 'Fiver *', 'Mümmelmann'] },
  // Hamsters and guinea pigs
  {
    categoryId: 4n,
    animals: ['Hammy', 'Nibbles ~', 'Popcorn & Peanut', 'Krümel', 'Wheely McWheelface', 'Choupette *'],
  },
  // Birds
  {
    categoryId: 5n,
    animals: [
      'Tweety',
      'Kakadu Karl',
      'Papageno 🦜',
      'Éclair',
      'Pan Tadeusz ~',
      'Blue',
      'Nachtigall *',
      'Coco',
    ],
  },
  // Fish
  {
    categoryId: 6n,
    animals: [
      'Guppy (shoal of 12) 🐟',
      'Neon tetra',
      'Goldie *',
      'Wanda',
      'Discus',
      'Señor Burbujas ~',
      'Bubbles',
    ],
  },
  // Reptiles
  { categoryId: 7n, animals: ['Schildi 🐢', 'Iggy', 'Kaa ~', 'Rango', 'Monty *', 'Gecko Gordon'] },
  // Frogs and newts
  { categoryId: 8n, animals: ['Quak', 'Freddo *', 'Axel Otl 🦎', 'Jeremy ~'] },
  // Horses and ponies
  { categoryId: 9n, animals: ['Fjörð', 'Polly', 'Black Beauty *', 'Pferdinand ~'] },
  // Everything else
  {
    categoryId: 42n,
    animals: ["Schrödinger's cat", 'Hedgehog "Spike"', 'Stick insects; a handful', 'Alpaca Beyoncé 🦙 *'],
  },
];

/** Behind a name above: `*` is sold, `~` is pending. */
const STATUS: Readonly<Record<string, PetStatus>> = { '*': 'sold', '~': 'pending' };

/** A small pet shop: animals of every status in several categories, and some orders. */
export function sampleShop(): Seed {
  const pets = shelves
    .flatMap(({ categoryId, animals }) => animals.map((animal) => ({ categoryId, ...readAnimal(animal) })))
    .map((pet, i) => ({ id: BigInt(i + 1), ...pet }));
  const wanted = pets.filter(({ status }) => status !== 'available');
  const orders = wanted.map(({ id, status }, i) => ({
    id: 1001 + i,
    petId: id,
    quantity: 1,
    customer: customers[i % customers.length],
    placedAt: new Date(Date.UTC(2026, 9, 1 + i * 2, 9 + (i % 8), 30)).toISOString(),
    status: status === 'sold' ? 'delivered' : 'approved',
  }));
  return { pets, orders };
}

const customers = ['Ms Appleby', 'Familie Grünwald', 'D. Ó Súilleabháin', 'Żaneta N.', '佐藤さん'];

function readAnimal(text: string): { name: string; status: PetStatus } {
  const status = STATUS[text.slice(-1)];
  return status ? { name: text.slice(0, -2), status } : { name: text, status: 'available' };
}
