import { expect, it } from 'vitest';
import { petJson } from '../../../src/contract/schemas.ts';
import type { CreateRequest, CreateResult } from '../../../src/store/store.ts';
import { cases } from '../../helpers/cases.ts';
import { allTexts, animal, randomOf } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

const [HOUR, DAY] = [3_600_000, 86_400_000];
const BODIES = ['1'.repeat(64), '2'.repeat(64)];
/** Keys that a store could confuse, for example if it joins scope and key: `a` and `kk`, or `ak` and `k`. */
const KEYS = ['k', 'kk', 'K', 'k ', ' ', '"', '\\', "'", '~'.repeat(255)];
const SCOPES = ['a', 'ak', 'b'];
const NAMES = ['Rex', 'a\u0000', '\ud800', '猫'];

export function describeIdempotency({ newPlace }: Places): void {
  const seeds = cases(40);

  it(`an idempotency key adds one animal in 24 hours, whatever is sent and restarted: ${seeds} seeds`, async () => {
    const seen = { added: 0, replayed: 0, mismatch: 0, in_flight: 0, renewed: 0, restarts: 0 };
    for (let seed = 0; seed < seeds; seed++) {
      const random = randomOf(seed);
      const upTo = (limit: number) => Math.floor(random() * limit);
      const pick = <T>(values: readonly T[]) => values[upTo(values.length)] as T;
      const { clock, open } = await newPlace();
      let backend = await open();
      const { id } = backend.store;
      const texts: string[] = [];
      const known = new Map<string, { body: string; pet: string; at: number }>();
      for (let step = 0; step < 40; step++) {
        const pause = pick([0, 1, upTo(HOUR), upTo(20 * HOUR), DAY - 1, DAY]);
        if (random() < 0.9) clock.advance(pause);
        else {
          await backend.close();
          clock.advance(pause);
          backend = await open();
          seen.restarts++;
          expect(backend.store.id).toBe(id);
        }
        const now = clock.now();
        const [sent, repeated] = [new Set<string>(), new Set<string>()];
        const expected: CreateResult[] = [];
        const requests = Array.from({ length: pick([1, 2, 12]) }, (): CreateRequest => {
          const pet = animal(pick(NAMES));
          const add = () => {
            texts.push(petJson({ id: BigInt(texts.length + 1), ...pet }));
            expected.push({ kind: 'added', pet: texts.at(-1) as string });
          };
          const [scope, key, bodyHash] = [pick(SCOPES), pick(KEYS), pick(BODIES)];
          const name = JSON.stringify([scope, key]);
          // No known key is sent twice at the same time, because a store may reject the second request.
          if (random() < 0.2 || repeated.has(name)) {
            add();
            return { pet };
          }
          const first = known.get(name);
          if (sent.has(name)) expected.push({ kind: 'in_flight' });
          else if (first && now - first.at < DAY) {
            const isSame = first.body === bodyHash;
            repeated.add(name);
            expected.push(isSame ? { kind: 'replayed', pet: first.pet } : { kind: 'mismatch' });
          } else {
            if (first) seen.renewed++;
            add();
            sent.add(name);
            known.set(name, { body: bodyHash, pet: texts.at(-1) as string, at: now });
          }
          return { pet, idempotency: { scope, key, bodyHash } };
        });
        const results = await Promise.all(requests.map((request) => backend.store.add(request)));
        expect(results, `seed ${seed}, step ${step}`).toEqual(expected);
        for (const { kind } of results) seen[kind]++;
      }
      expect(await allTexts(backend.store)).toEqual(texts);
      await backend.close();
    }
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
  });
}
