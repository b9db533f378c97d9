// A process of its own that opens a store: says on stdout whether it has it, and then lives until it is killed, or,
// told to `leave`, for as long as the store keeps it alive.
import { openJournalStore } from '../../src/store/journal-store.ts';

const [directory = '', url, mode] = process.argv.slice(2);
// Held on to: Node 26 takes an open file that is collected as garbage for an error.
const held: unknown[] = [];

openJournalStore({ directory }).then(
  async (store) => {
    held.push(store);
    if (url) store.announce(url);
    await store.add({ pet: { name: 'Rex', categoryId: 1n, status: 'sold' } });
    process.stdout.write('{"has":true}\n');
    if (mode !== 'leave') setInterval(() => {}, 1000);
  },
  (error) =>
    process.stdout.write(`${JSON.stringify({ has: false, name: error.name, message: error.message })}\n`),
);
