import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { petJson, petStatuses } from '../../src/contract/schemas.ts';
import { encodeBatch, encodeHeader, type PetToWrite } from '../../src/store/journal/format.ts';
import { fingerprintOf } from '../../src/store/store.ts';
import { manualClock } from '../helpers/clock.ts';
import {
  allTexts,
  animal,
  idempotency,
  journalLine,
  openJournalStore,
  randomOf,
} from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const secret = '5'.repeat(64);
const header = { id: '00000000-0000-4000-8000-000000000000', secret, created: '2026-11-20T00:00:00.000Z' };
const FIRST_IDS = [0n, 2n ** 31n - 500n, 2n ** 32n - 500n, 10n ** 15n - 500n, 2n ** 53n - 500n];

/**
 * A journal of several megabytes with records of all sizes. Some records are longer than one read. With even seeds, most
 * records have one animal. With odd seeds, most records are long.
 */
function randomJournal(seed: number, at: number) {
  const random = randomOf(seed);
  const upTo = (limit: number) => Math.floor(random() * limit);
  const isEven = seed % 2 === 0;
  const lines: Buffer[] = [encodeHeader(header)];
  const texts: string[] = [];
  const keys = new Map<string, string>();
  let id = FIRST_IDS[seed % FIRST_IDS.length] ?? 0n;
  for (let seq = 1; texts.length < 12_000; seq++) {
    if (random() < 0.2) {
      lines.push(journalLine(`"seq":${seq},"at":${at},"order":{"seq":${seq}}}`));
      continue;
    }
    const entries: PetToWrite[] = [];
    const count = random() < (isEven ? 0.7 : 0.05) ? 1 : 1 + upTo(isEven ? 40 : 400);
    for (let i = 0; i < count; i++) {
      id += BigInt(1 + upTo(3));
      const name = random() < 0.0005 ? '猫'.repeat(upTo(700_000)) : `"é\\${id}${'x'.repeat(upTo(40))}`;
      const status = petStatuses[upTo(3)] ?? 'sold';
      const text = petJson({ ...animal(name, { status }), id });
      texts.push(text);
      const key = random() < (isEven ? 0.5 : 0.01) ? `k${id}` : undefined;
      if (key !== undefined) keys.set(key, text);
      const fingerprint = key === undefined ? undefined : fingerprintOf(idempotency(key), secret);
      entries.push({ id, status, text, idempotency: fingerprint });
    }
    lines.push(encodeBatch(seq, at, entries).line);
  }
  return { bytes: Buffer.concat(lines), texts, keys };
}

it.each([0, 1, 2, 3, 4])('replays every animal and key of a long journal: seed %i', async (seed) => {
  const clock = manualClock();
  const { bytes, texts, keys } = randomJournal(seed, clock.now());
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'journal.ndjson'), bytes);
  const store = await openJournalStore({ directory, clock });
  await store.add({ pet: animal('later') });
  const listed = await allTexts(store, { limit: 500 });
  expect(listed.pop()).toContain('"later"');
  expect(listed.length).toBe(texts.length);
  listed.forEach((text, i) => {
    if (text !== texts[i]) expect.fail(`animal ${i}: ${text.slice(0, 200)}`);
  });
  for (const text of texts.slice(0, 2_000)) {
    const id = BigInt(/\{"id":(\d+)/.exec(text)?.[1] ?? 0);
    if ((await store.get(id)) !== text) expect.fail(`animal ${id}`);
  }
  for (const [key, pet] of keys) {
    const result = await store.add({ pet: animal(), idempotency: idempotency(key) });
    if (result.kind !== 'replayed' || result.pet !== pet) expect.fail(`key ${key}`);
  }
  expect((await store.orders()).length).toBeGreaterThan(5);
  await store.close();
});
