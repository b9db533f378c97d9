import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { petJson, petStatuses } from '../../src/contract/schemas.ts';
import { fingerprintOf } from '../../src/store/idempotency.ts';
import { type Entry, encodeBatch, encodeHeader, encodeOrder } from '../../src/store/journal-format.ts';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { animal, idempotency, randomOf, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const secret = '5'.repeat(64);
const header = { id: '00000000-0000-4000-8000-000000000000', secret, created: '2026-11-20T00:00:00.000Z' };

/** Megabytes of records of all sizes, some longer than what is read at once, in all ranges of ids. */
function journalOf(seed: number, at: number) {
  const random = randomOf(seed);
  const upTo = (limit: number) => Math.floor(random() * limit);
  const [lines, texts, keys]: [Buffer[], string[], Map<string, string>] = [
    [encodeHeader(header)],
    [],
    new Map(),
  ];
  let id = [-(2n ** 63n), -(2n ** 53n) - 500n, -500n, 2n ** 32n - 500n, 2n ** 53n - 500n][seed % 5] ?? 0n;
  // Single animals in the one, whose texts are copied; in the other rows, which stay where they were read.
  const most = seed % 2 === 0 ? 40 : 400;
  const singles = seed % 2 === 0 ? 0.7 : 0.05;
  for (let seq = 1; texts.length < 30_000; seq++) {
    if (random() < 0.1) {
      lines.push(encodeOrder(seq, at, `{"seq":${seq}}`));
      continue;
    }
    const entries: Entry[] = [];
    for (let count = random() < singles ? 1 : 1 + upTo(most); count > 0; count--) {
      id += BigInt(1 + upTo(3));
      const name = random() < 0.0002 ? '猫'.repeat(upTo(700_000)) : `"é\\${id}${'x'.repeat(upTo(40))}`;
      const text = petJson({ ...animal(name, { status: petStatuses[upTo(3)] ?? 'sold' }), id });
      texts.push(text);
      const key = random() < (seed % 2 === 0 ? 0.5 : 0.01) ? `k${id}` : undefined;
      if (key) keys.set(key, text);
      entries.push({ text, fingerprint: key && fingerprintOf(idempotency(key), secret) } as Entry);
    }
    lines.push(encodeBatch(seq, at, entries).line);
  }
  return { bytes: Buffer.concat(lines), texts, keys };
}

it.each([0, 1, 2, 3, 4])(
  'brings back every animal and key of a long journal, byte for byte: %i',
  async (seed) => {
    const clock = manualClock();
    const { bytes, texts, keys } = journalOf(seed, clock.now());
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'journal.ndjson'), bytes);
    const store = await openJournalStore({ directory, clock });
    await store.add({ pet: animal('later') });
    const pets: string[] = [];
    for (let after: bigint | undefined, isMore = true; isMore; isMore = after !== undefined) {
      const page = await store.list({ limit: 500, after });
      pets.push(...textsOf(page));
      after = page.next;
    }
    expect(pets.pop()).toContain('"later"');
    expect(pets.length).toBe(texts.length);
    pets.forEach(
      (text, i) => void (text === texts[i] || expect.fail(`animal ${i} is ${text.slice(0, 200)}`)),
    );
    for (const text of texts.slice(0, 2_000)) {
      const id = BigInt(/\{"id":(-?\d+)/.exec(text)?.[1] ?? 0);
      if ((await store.get(id)) !== text) expect.fail(`animal ${id}`);
    }
    for (const status of petStatuses) {
      const { pets, next } = await store.list({ limit: 100, status });
      const expected = texts.filter((text) => text.endsWith(`"status":"${status}"}`));
      expect([textsOf({ pets }), next !== undefined]).toEqual([
        expected.slice(0, 100),
        expected.length > 100,
      ]);
    }
    for (const [key, pet] of keys) {
      const outcome = await store.add({ pet: animal(), idempotency: idempotency(key) });
      if (outcome.kind !== 'replayed' || outcome.pet !== pet) expect.fail(`the key ${key}`);
    }
    expect((await store.orders()).length).toBeGreaterThan(5);
    await store.close();
  },
);
