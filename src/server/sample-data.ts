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

const customers = ['Ms Appleby', 'Familie Grünwald', 'D. Ó Súilleabháin', 'Żaneta N.', '佐藤さん'];

/** The sample data of `pets serve --seed`: animals of every status in several categories, and some orders. */
export function sampleData(): Seed {
  const pets = [...SAMPLES.matchAll(/^(\d+) .*: (.*)$/gm)]
    .flatMap(([, categoryId = '', animals = '']) =>
      animals.split(', ').map((animal) => ({ categoryId: BigInt(categoryId), ...parseAnimal(animal) })),
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
