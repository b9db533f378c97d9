import { openJournalStore } from './store-fixtures.ts';

// This process opens a store, adds an animal, and prints `{"isOpen":true}`. Then a timer keeps it running until it is
// killed. With the mode `exit`, there is no timer, so it ends unless the store keeps it running.

const [directory = '', url, mode] = process.argv.slice(2);
// Keep the store referenced, because Node 26 reports an error if an open file is garbage-collected.
const references: unknown[] = [];

openJournalStore({ directory, url }).then(
  async (store) => {
    references.push(store);
    await store.add({ pet: { name: 'Rex', categoryId: 1n, status: 'sold' } });
    process.stdout.write('{"isOpen":true}\n');
    if (mode !== 'exit') setInterval(() => {}, 1000);
  },
  (error) => process.stdout.write(`${JSON.stringify({ isOpen: false, name: error.name })}\n`),
);
